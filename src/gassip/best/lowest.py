"""The minimum of a convex function of a tensor, by scipy's L-BFGS.

`torch.optim.LBFGS` would import torch's compiler: longer than a search of a small graph.
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor


def lowest(loss: Callable[[Tensor], Tensor], start: Tensor, most_steps: int) -> Tensor:
    """Where `loss` is lowest, after some steps from `start`; on the CPU."""

    def slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(flat, dtype=start.dtype).view_as(start).requires_grad_()
        value = loss(point)
        (gradient,) = torch.autograd.grad(value, (point,))
        return float(value.detach()), gradient.double().numpy().ravel()

    flat = start.detach().double().numpy().ravel()
    options = {"maxiter": most_steps, "gtol": 1e-7, "ftol": 1e-12}
    found = minimize(slope, flat, jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(found.x).to(start.dtype).view_as(start)
