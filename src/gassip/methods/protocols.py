"""What a method offers: `solve`, and what more it can do."""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from gassip.graph.graph import Graph
    from gassip.train.context import RunContext
    from gassip.train.plan import Plan, Solution


@runtime_checkable
class Method(Protocol):
    """What every method offers."""

    version: ClassVar[int]

    def solve(self, graph: "Graph", run: "RunContext") -> "Solution": ...


@runtime_checkable
class StartsFromPlan(Method, Protocol):
    """A method that can start from what a search found."""

    def solve_from(self, plan: "Plan", graph: "Graph", run: "RunContext") -> "Solution": ...


@runtime_checkable
class Searcher(StartsFromPlan, Protocol):
    """A method whose search stands apart from its training, so that one search can be trained with
    many seeds."""

    def num_steps(self, graph: "Graph") -> int:
        """How many events a search tells."""
        ...

    def search(self, graph: "Graph", run: "RunContext") -> "Plan": ...


@runtime_checkable
class Resumer(Searcher, Protocol):
    """A searcher whose killed search can go on."""

    def resume(self, folder: "Path", graph: "Graph", run: "RunContext") -> "Plan":
        """Like `search`, from what a killed one left in the folder."""
        ...


@runtime_checkable
class SharesSearch(Resumer, Protocol):
    """A method whose search is that of another method (`Entry.searches_as`), with something changed
    in what it found."""

    def after(self, plan: "Plan", graph: "Graph", seed: int) -> "Plan":
        """What this method makes of the other method's plan."""
        ...


class MethodClass(Protocol):
    """The class of a method."""

    version: ClassVar[int]

    def for_graph(self, graph: "Graph", **options: Any) -> Method: ...
