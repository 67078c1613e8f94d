"""IMP: UGS without its edge masks, so weights only: L = CE(A, W ⊙ m_θ) + λ_θ ‖m_θ‖₁, the lowest 20
% go each round.

Chen, Sui, Chen, Zhang and Wang, A Unified Lottery Ticket Hypothesis for Graph Neural Networks, ICML
2021; after Frankle and Carbin, The Lottery Ticket Hypothesis, ICLR 2019.
"""

from dataclasses import dataclass

from gassip.baselines.ugs import Ugs


@dataclass(frozen=True, kw_only=True)
class Imp(Ugs):
    """UGS that drops no edge."""

    edge_share: float = 0.0
