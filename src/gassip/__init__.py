"""GASSIP: a graph in, a light GNN out (Xie et al., KDD 2024). The public names, each imported when first used."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gassip.artefact import open_run as open_run
    from gassip.artefact import save as save
    from gassip.budget import Budget as Budget
    from gassip.budget import fit_budget as fit_budget
    from gassip.data import load as load
    from gassip.data import read as read
    from gassip.errors import GassipError as GassipError
    from gassip.estimator import GassipClassifier as GassipClassifier
    from gassip.graph import Graph as Graph
    from gassip.retrain import Found as Found
    from gassip.retrain import Solution as Solution
    from gassip.retrain import retrain as retrain
    from gassip.search import search as search
    from gassip.settings import Gassip as Gassip
    from gassip.settings import preset as preset
    from gassip.shrink import shrink as shrink
    from gassip.space import Net as Net

__version__ = "0.1.0"

_HOME = {
    "Budget": "budget",
    "Found": "retrain",
    "Gassip": "settings",
    "GassipClassifier": "estimator",
    "GassipError": "errors",
    "Graph": "graph",
    "Net": "space",
    "Solution": "retrain",
    "fit_budget": "budget",
    "load": "data",
    "open_run": "artefact",
    "preset": "settings",
    "read": "data",
    "retrain": "retrain",
    "save": "artefact",
    "search": "search",
    "shrink": "shrink",
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


class _Package(ModuleType):
    """`gassip.search` is the function, also once the module of that name has been imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
