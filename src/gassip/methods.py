"""The methods by name. A method is a frozen dataclass of its settings with `solve`; one that searches adds `search`.

`found` composes: DARTS+UGS is `Ugs().solve(graph, seed=0, found=Darts(...).search(graph, seed=0))`.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gassip.baselines.gcn import Gcn
from gassip.errors import GassipError
from gassip.graph import Graph
from gassip.metrics import Metric
from gassip.retrain import Found, Solution


class Method(Protocol):
    """What every method offers."""

    def solve(
        self,
        graph: Graph,
        *,
        seed: int,
        metric: Metric = "accuracy",
        found: Found | None = None,
        on_epoch: Callable[[dict[str, float]], None] | None = None,
    ) -> Solution: ...


@dataclass(frozen=True)
class Entry:
    """One line of the list: how to make the method for a graph, and what to say of it."""

    make: Callable[[Graph], Method]
    family: str
    summary: str
    reference: str


METHODS: dict[str, Entry] = {
    "gcn": Entry(lambda graph: Gcn(), "hand-made", "two graph convolutions", "Kipf and Welling, ICLR 2017"),
}


def entry(name: str) -> Entry:
    """The entry of that name, or one line with the nearest."""
    if name not in METHODS:
        near = difflib.get_close_matches(name.lower(), METHODS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise GassipError(f"there is no method {name!r}; {hint}see `gassip methods`")
    return METHODS[name]
