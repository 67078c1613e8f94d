"""What a search hands over, and what a training makes of it.

    Plan       an architecture, which of its weights and which edges exist, and how to train it
    Decision   one choice that a search made: what was tried, the statistic, the threshold
    Solution   a trained net and the graph it runs on

Shapes: N nodes, E directed edges of the graph as the plan reads it, C classes.
"""

from dataclasses import dataclass, field, replace

from torch import Tensor

from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Model
from gassip.nn.size import Size
from gassip.settings import Settings
from gassip.settings.training import Recipe
from gassip.train.leaderboard import Standing

Row = dict[str, float | str]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One choice on validation: the first of `tried` stays unless another passes the threshold."""

    stage: str
    taken: str
    tried: tuple[Row, ...] = ()  # name, validation score, and the statistic against what stayed
    statistic: str = ""
    threshold: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What a search hands over."""

    settings: Settings  # the inputs of the search
    recipe: Recipe  # how the net is trained
    architecture: Architecture
    symmetrised: bool = False  # whether every edge is read both ways
    weighted: bool = True  # whether the given weights of edges are used
    degrees: bool = False  # whether columns of degree stand beside the given features
    soft_edges: bool = False  # kept edges weigh M_G besides what was given
    weight_keep: list[Tensor]  # per layer, bool, of the shape of its weight
    edge_keep: Tensor  # [E] bool
    edge_mask: Tensor  # [E] M_G at the end; ones without sparsification
    first_weights: dict[str, Tensor]  # the net's parameters as the search started (rewind)
    last_weights: dict[str, Tensor]  # and as it ended, masks multiplied in (inherit)
    history: list[Row]
    seconds: float
    feature_index: Tensor | None = None  # [kept] int64: the columns of x the net reads; None: all
    teacher: Tensor | None = None  # [N, C] soft labels of the training; None: labels alone
    decisions: tuple[Decision, ...] = ()
    leaderboard: tuple[Standing, ...] = ()  # every net that the search trained, in that order

    def __repr__(self) -> str:
        """One line, not the tensors."""
        kept, total = int(self.edge_keep.sum()), self.edge_keep.numel()
        ops = " ‖ ".join(self.architecture.ops)
        return f"Plan({ops}; {kept:,} of {total:,} edges; {len(self.decisions)} decisions)"

    def on(self, graph: Graph, *, all_edges: bool = False) -> Graph:
        """The graph as this plan reads it: symmetrised or as given, with the degrees of all edges
        beside x where they are read, with the kept edges only, which weigh M_G (`soft_edges`) or as
        given."""
        graph = symmetrised(graph if self.weighted else unweighted(graph), self.symmetrised)
        graph = graph.with_degrees if self.degrees else graph
        if all_edges:
            return graph
        return graph.keep(
            self.edge_keep, graph.weight * self.edge_mask if self.soft_edges else None
        )


def unweighted(graph: Graph) -> Graph:
    """The graph with all of its edges, each of weight 1."""
    return graph if graph.edge_weight is None else replace(graph, edge_weight=None)


def symmetrised(graph: Graph, both: bool) -> Graph:
    """The graph with the reverse of every edge, or as it is."""
    return graph.both_ways if both else graph


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """A trained net and the graph it runs on."""

    model: Model
    graph: Graph  # with the kept edges only
    scores: dict[str, dict[str, float]]  # metric -> split -> value
    weights_kept: int
    weights_total: int
    edges_kept: int
    edges_total: int
    seconds: float
    best_epoch: int
    size: Size | None = None  # of a `Net`: what is physically there
    details: dict[str, object] = field(default_factory=dict)  # what a method says beyond the counts

    def __repr__(self) -> str:
        """One line, not the tensors."""
        scores = "; ".join(
            f"{metric} " + ", ".join(f"{split} {value:.4f}" for split, value in of.items())
            for metric, of in self.scores.items()
        )
        weights = f"{self.weights_kept:,} of {self.weights_total:,} weights"
        edges = f"{self.edges_kept:,} of {self.edges_total:,} edges"
        return f"Solution({scores}; {weights}, {edges})"

    @property
    def accuracy(self) -> dict[str, float]:
        return self.scores["accuracy"]
