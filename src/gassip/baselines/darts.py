"""DARTS on the paper's space: the mixture of all operations, its weights and α stepped in turn,
first order.

    ō_l(h) = Σ_o softmax(α_l)_o o(h; W_o),   W ← L_train,   α ← L_val,   a_l = argmax_o α_l,o

Liu, Simonyan and Yang, DARTS: Differentiable Architecture Search, ICLR 2019. It is Algorithm 2 with
neither mask.
"""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines.gassip import GassipMethod
from gassip.settings import Settings

UNMASKED = Settings.of(prune=False, sparsify=False)


@dataclass(frozen=True, kw_only=True)
class Darts(GassipMethod):
    """The search without its two masks."""

    version: ClassVar[int] = 1

    settings: Settings = UNMASKED
