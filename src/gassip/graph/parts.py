"""What a reader found of a graph, not yet checked; and the names that files and masks share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gassip.errors import GassipError, error_of

if TYPE_CHECKING:
    from scipy import sparse as sp

    from gassip.graph.preparation import Preparation

SPLITS = ("train", "val", "test")
MASKS = tuple(f"{split}_mask" for split in SPLITS)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a reader found, not yet checked."""

    x: "np.ndarray | sp.csr_array"  # [N, 0]: no features are given
    edge_index: np.ndarray
    y: np.ndarray | None = None  # None where only the inputs were asked for
    masks: tuple[np.ndarray | None, ...] | None = None  # train, val, test; None: not given
    edge_weight: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None
    whole_labels: bool | None = None  # class_names are digits of numbers; None: not known
    ids: tuple[str, ...] | None = None  # of the nodes, where the file names them
    preparation: "Preparation | None" = None  # how named columns became x
    undirected: bool = False  # whatever the file stores
    notes: tuple[str, ...] = ()

    @property
    def bare(self) -> bool:
        """Whether there are no features; these are then made from the edges (structure.py)."""
        return bool(self.x.shape[1:] == (0,))

    def node_ids(self) -> tuple[str, ...]:
        """The file's own names of the nodes, else the numbers of the rows."""
        return row_numbers(self.x.shape[0]) if self.ids is None else self.ids


def row_numbers(count: int) -> tuple[str, ...]:
    return tuple(str(row) for row in range(count))


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Errors inside begin with the path the user gave, which is not empty: Path("") is the folder
    that one works in."""
    if not str(path):
        raise GassipError("the path is empty; is a variable unset?")
    try:
        yield
    except OSError as error:
        raise GassipError(f"{path}: {error.strerror or error}") from error
    except GassipError as error:
        raise error_of([f"{path}: {line}" for line in error.lines]) from error
