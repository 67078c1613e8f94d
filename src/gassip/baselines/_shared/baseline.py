"""What every method has besides `solve`."""

from typing import ClassVar, Self

from gassip.graph.graph import Graph


class Baseline:
    """A method is a frozen dataclass of its settings; a subclass adds the fields and `solve`."""

    version: ClassVar[int] = 1  # to be raised when the method's numbers change; in every record

    @classmethod
    def for_graph(cls, graph: Graph) -> Self:
        """The settings as published for this graph; the defaults where there are none for it."""
        return cls()
