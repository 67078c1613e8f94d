"""A graph as the arrays that core.c's gassip_graph points to: float32 and int32, contiguous."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse as sp

from gassip.deploy.numpy_graph import Inputs
from gassip.graph.checks import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphArrays:
    """The fields of gassip_graph after `nodes`, in its order; None: 0."""

    indptr: Array  # [N + 1]
    sender: Array  # [E]
    weight: Array | None  # [E]
    degree: Array | None = None  # [N]
    x: Array | None = None  # [N, d]
    x_indptr: Array | None = None  # [N + 1]
    x_index: Array | None = None
    x_value: Array | None = None
    labels: Array | None = None  # [N]

    def items(self) -> Iterator[tuple[str, Array | None]]:
        """Names and arrays, in order."""
        yield from vars(self).items()


def graph_arrays(inputs: Inputs) -> GraphArrays:
    edges, x = inputs.edges, inputs.x
    rows = x if isinstance(x, sp.csr_array) else None
    ones = bool((edges.data == 1).all())
    return GraphArrays(
        indptr=edges.indptr.astype(np.int32),
        sender=edges.indices.astype(np.int32),
        weight=None if ones else edges.data.astype(np.float32),
        x=np.ascontiguousarray(x, dtype=np.float32) if rows is None else None,
        x_indptr=None if rows is None else rows.indptr.astype(np.int32),
        x_index=None if rows is None else rows.indices.astype(np.int32),
        x_value=None if rows is None else rows.data.astype(np.float32),
        labels=None if inputs.labels is None else inputs.labels.astype(np.int32),
    )
