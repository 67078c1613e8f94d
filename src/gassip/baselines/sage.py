"""GraphSAGE: h'_i = W1 mean_{j ∈ N_i} h_j + W2 h_i. Hamilton, Ying and Leskovec, Inductive
Representation Learning on Large Graphs, NeurIPS 2017."""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines._shared.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Sage(Stack):
    """Two mean aggregations over all neighbours."""

    op: ClassVar[str] = "SAGEConv"
