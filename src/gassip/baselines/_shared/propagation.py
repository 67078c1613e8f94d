"""Label propagation as PyG has it: the edges in PyG's form, and logarithms of class shares."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gassip.nn.propagate import MaskedGraph

LEAST = 1e-9  # the least class share of which a logarithm is taken


@contextmanager
def quiet_csr(graph: MaskedGraph) -> Iterator[Tensor]:
    """The edges in a form by which PyG multiplies without a copy per edge; torch calls it new in
    warnings."""
    pattern = graph.adjacency
    parts = (pattern.rowptr.long(), pattern.col64, graph.edge_weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield torch.sparse_csr_tensor(*parts, pattern.shape)
