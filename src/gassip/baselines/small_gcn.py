"""Small GCN: h' = D^-1/2 (A + I) D^-1/2 h W with few hidden units; the control for every claim
about size. Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR
2017."""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines.gcn import Gcn


@dataclass(frozen=True, kw_only=True)
class SmallGcn(Gcn):
    """A GCN with 4, 8, 16 or 32 hidden units."""

    version: ClassVar[int] = 2

    dropout: float = 0.8  # as tuned for the GCN beside it
    hidden: int = 16
