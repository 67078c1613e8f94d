"""ARMA: h' = D^-1/2 A D^-1/2 h W + h V, one stack and one step. Bianchi et al., Graph Neural
Networks with Convolutional ARMA Filters, TPAMI 2021."""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines._shared.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Arma(Stack):
    """Two ARMA filters."""

    op: ClassVar[str] = "ArmaConv"

    dropout: float = 0.8
