"""What there is to warn of when a classifier labels a graph that is not its training graph: what
`gassip predict` says on stderr (graph/drift.py), and label propagation that is missing there."""

from dataclasses import dataclass

from gassip.graph.checks import Table
from gassip.graph.csr import Csr
from gassip.graph.drift import Statistics, drift
from gassip.graph.graph import Graph
from gassip.nn.net import Model
from gassip.runs.format import on_other_graphs
from gassip.train.plan import Plan


@dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """Of the training graph: ranges of its features and edges per node."""

    statistics: Statistics | None
    degree: float

    @staticmethod
    def of(graph: Graph) -> "Training":
        """Of the graph with all of its edges, as the plan reads them."""
        return Training(statistics=Statistics.of(_table(graph)), degree=_degree(graph))


def warnings_on(graph: Graph, training: Training, plan: Plan, model: Model) -> list[str]:
    """A line each."""
    index = getattr(model, "feature_index", None)
    lines = drift(
        _table(graph),
        training.statistics,
        degree=(_degree(graph), training.degree),
        preparation=graph.preparation,
        columns=None if index is None else index.cpu().numpy(),
    )
    recipe = plan.recipe
    about = {"label_weight": recipe.label_weight, "labels_in_training": recipe.labels_in_training}
    missing = on_other_graphs(about)
    return [missing, *lines] if missing else lines


def _table(graph: Graph) -> Table:
    return graph.x.to_scipy() if isinstance(graph.x, Csr) else graph.x.cpu().numpy()


def _degree(graph: Graph) -> float:
    return graph.num_edges / max(graph.num_nodes, 1)
