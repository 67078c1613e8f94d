import pytest

from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, net_for
from gassip.nn.size import count_macs
from gassip.operations import OPERATIONS, Operation


def macs_of(graph: Graph, op: str) -> int:
    return count_macs(net_for(graph, Architecture(ops=(op,), hidden=())), graph)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        # N = 4, E = 4, D = 4, C = 2: X W takes 4·4·2 = 32 for each matrix
        ("Linear", 32),
        ("GCNConv", 32 + (4 + 4) * 2),
        ("SAGEConv", 64 + 4 * 2),
        ("ArmaConv", 64 + 4 * 2),
        ("GATConv", 32 + (4 + 3 * 4) * 2 + 6 * (4 + 4)),
        ("APPNP5", 32 + 5 * (4 + 2 * 4) * 2),
        ("APPNP10", 32 + 10 * (4 + 2 * 4) * 2),
        ("Hops2", 32 + 2 * (4 + 2 * 4) * 2),
        ("Hops4", 32 + 4 * (4 + 2 * 4) * 2),
    ],
)
def test_macs_of_every_operation_by_hand(path: Graph, op: str, expected: int) -> None:
    assert macs_of(path, op) == expected


def test_every_operation_that_reads_edges_costs_more_than_linear(path: Graph) -> None:
    cheap = [op for op in OPERATIONS if macs_of(path, op) <= macs_of(path, "Linear")]
    assert cheap == ["Linear"]


def test_a_new_operation_is_not_free(path: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    # 3 steps, each 4 edges and 4 nodes for b P, of width 2
    monkeypatch.setitem(OPERATIONS, "Toy", Operation(norm="mean", steps=3, back=0.5))
    monkeypatch.setitem(OPERATIONS, "Plain", Operation(norm="mean"))
    assert macs_of(path, "Toy") == 32 + 3 * (4 + 4) * 2
    assert macs_of(path, "Plain") == 32 + 4 * 2


def test_counting_an_operation_that_is_not_in_the_table_is_an_error(
    path: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPERATIONS, "Toy", Operation(norm="mean"))
    net = net_for(path, Architecture(ops=("Toy",), hidden=()))
    monkeypatch.delitem(OPERATIONS, "Toy")
    with pytest.raises(KeyError, match="Toy"):
        count_macs(net, path)


def test_a_norm_that_is_not_known_is_refused() -> None:
    with pytest.raises(GassipError, match="norm is 'max'; there are gcn"):
        Operation(norm="max")
