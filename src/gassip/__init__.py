"""GASSIP: a graph in, a light GNN out (Xie et al., KDD 2024). The public names, each imported when
first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gassip.best.anytime import search as search
    from gassip.budget.budget import Budget as Budget
    from gassip.budget.fit import fit_budget as fit_budget
    from gassip.errors import GassipError as GassipError
    from gassip.errors import GassipWarning as GassipWarning
    from gassip.estimator import GassipClassifier as GassipClassifier
    from gassip.graph.datasets import load as load
    from gassip.graph.datasets import read as read
    from gassip.graph.graph import Graph as Graph
    from gassip.graph.memory import as_graph as as_graph
    from gassip.graph.sources import from_frames as from_frames
    from gassip.nn.net import Net as Net
    from gassip.runs.write import open_run as open_run
    from gassip.runs.write import save as save
    from gassip.settings import Settings as Settings
    from gassip.settings import preset as preset
    from gassip.threads import set_threads as set_threads
    from gassip.train.plan import Plan as Plan
    from gassip.train.plan import Solution as Solution
    from gassip.train.shrink import shrink as shrink
    from gassip.train.trainer import retrain as retrain

__version__ = "0.2.0"

_HOME = {
    "Budget": "budget.budget",
    "Plan": "train.plan",
    "Settings": "settings",
    "GassipClassifier": "estimator",
    "GassipError": "errors",
    "GassipWarning": "errors",
    "Graph": "graph.graph",
    "Net": "nn.net",
    "Solution": "train.plan",
    "as_graph": "graph.memory",
    "fit_budget": "budget.fit",
    "from_frames": "graph.sources",
    "load": "graph.datasets",
    "open_run": "runs.write",
    "preset": "settings",
    "read": "graph.datasets",
    "retrain": "train.trainer",
    "save": "runs.write",
    "search": "best.anytime",
    "set_threads": "threads",
    "shrink": "train.shrink",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    """Lazily, so that `gassip.runtime` and `gassip --help` do without torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'gassip' has no attribute {name!r}")
    value: object = vars(import_module(f"gassip.{_HOME[name]}"))[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
