"""GCN: h' = D^-1/2 (A + I) D^-1/2 h W. Kipf and Welling, Semi-Supervised Classification with Graph
Convolutional Networks, ICLR 2017."""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines._shared.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Gcn(Stack):
    """Two graph convolutions."""

    op: ClassVar[str] = "GCNConv"
