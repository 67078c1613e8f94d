import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.nn.dropout import drop


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_drop_keeps_its_share_and_the_mean(p: float) -> None:
    torch.manual_seed(0)
    out = drop(torch.ones(400, 251), p)
    assert isinstance(out, Tensor)
    kept, rounded = out > 0, round(256 * p) / 256
    assert kept.float().mean() == pytest.approx(
        1 - p, abs=0.006
    )  # five deviations of 100,400 draws at most: .008
    assert out[kept].unique().tolist() == pytest.approx([1 / (1 - rounded)])
    assert out.mean() == pytest.approx(1.0, abs=0.04)


def test_drop_draws_entries_independently() -> None:
    torch.manual_seed(0)
    out = drop(torch.ones(100_000), 0.5)
    assert isinstance(out, Tensor)
    kept = (out > 0).float()
    for lag in range(1, 10):  # eight draws share one random number
        assert (kept[lag:] * kept[:-lag]).mean() == pytest.approx(0.25, abs=0.008)


def test_drop_of_sparse_touches_stored_values_only() -> None:
    torch.manual_seed(0)
    x = Csr.from_scipy(sp.random_array((60, 50), density=0.2, rng=0))
    out = drop(x, 0.5)
    assert isinstance(out, Csr) and out.value is not None and x.value is not None
    assert torch.equal(out.col, x.col) and torch.equal(out.rowptr, x.rowptr)
    kept = out.value != 0
    torch.testing.assert_close(out.value[kept], 2 * x.value[kept])
    assert 0.4 < kept.float().mean() < 0.6


@given(st.integers(0, 999), st.sampled_from([(1,), (3,), (5, 1), (2, 3), (7, 5)]))
def test_drop_of_any_shape(seed: int, shape: tuple[int, ...]) -> None:
    torch.manual_seed(seed)
    out = drop(torch.ones(shape), 0.25)
    assert isinstance(out, Tensor) and out.shape == shape
    assert set(out.flatten().tolist()) <= {0.0, torch.tensor(4 / 3).item()}


def test_drop_zero_is_the_identity() -> None:
    x = torch.randn(3, 2)
    assert drop(x, 0.0) is x


def test_drop_of_nearly_everything() -> None:
    out = drop(torch.ones(1000), 0.999999)  # a setting below 1 is allowed
    assert isinstance(out, Tensor) and out.isfinite().all()


def test_gradient_of_drop_is_its_own_mask() -> None:
    torch.manual_seed(0)
    x = torch.ones(50, requires_grad=True)
    out = drop(x, 0.5)
    assert isinstance(out, Tensor)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())  # type: ignore[arg-type]
