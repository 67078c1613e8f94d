"""Graphs the tests share: one small enough to work by hand, and a factory of random ones."""

import os
import warnings
from collections.abc import Callable, Iterator

import hypothesis
import numpy as np
import pytest
import torch
from filelock import FileLock
from scipy import sparse as sp

with (
    warnings.catch_warnings()
):  # importing PyG calls torch.jit.script, which torch deprecates; ours are errors
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn  # noqa: F401

from gassip.graph.graph import Graph

torch.set_num_threads(1)  # the graphs are small: more threads only wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")  # and so in the processes that tests start

hypothesis.settings.register_profile(
    "gassip", deadline=None, max_examples=20, derandomize=True, database=None
)
hypothesis.settings.load_profile("gassip")


def random_graph(
    seed: int = 0,
    *,
    nodes: int = 18,
    edges: int = 40,
    features: int = 6,
    classes: int = 3,
    isolated: int = 2,
    undirected: bool = True,
    weighted: bool = False,
    sparse: bool = False,
) -> Graph:
    """A random graph whose last `isolated` nodes have no edges; the self-loops drawn are dropped by
    `Graph.build`.

    Node i has class i mod C; every third block of C nodes is for training, validation and test.
    """
    rng = np.random.default_rng(seed)
    index = rng.integers(0, nodes - isolated, (2, edges))
    index[:, 0] = (0, 1)  # at least one edge that is no self-loop
    x = rng.normal(size=(nodes, features)).astype(np.float32)
    block = np.arange(nodes) // classes % 3
    return Graph.build(
        sp.csr_array(np.where(rng.random(x.shape) < 0.1, x, 0)) if sparse else x,
        index,
        np.arange(nodes) % classes,
        masks=(block == 0, block == 1, block == 2),
        edge_weight=rng.uniform(0.2, 2.0, edges) if weighted else None,
        undirected=undirected,
    )


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cluster at a time over the processes of the tests: `auto` finds that of another one."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "cluster.lock"):
        yield


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., Graph]:
    return random_graph


@pytest.fixture
def path() -> Graph:
    """The path 0 - 1 - 2 and node 3 apart. Edges, by receiver: 1→0, 0→1, 2→1, 1→2."""
    return Graph.build(
        torch.eye(4),
        torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]),
        torch.tensor([0, 1, 0, 1]),
        masks=(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1])),
    )
