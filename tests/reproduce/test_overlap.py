"""Which edges masks remove, and how far two of them agree."""

from pathlib import Path

import pytest
import torch

from gassip.errors import GassipError
from gassip.nn.propagate import MaskedGraph
from gassip.reproduce import overlap
from gassip.reproduce.experiments import EXPERIMENTS, graph
from gassip.reproduce.figures import overlap_drawing
from gassip.reproduce.overlap import NAMES, NETS, SHARES, Kept, Masked, net_of, removed
from gassip.reproduce.tables import overlap_table
from tests.conftest import random_graph


def test_the_lowest_are_removed() -> None:
    score = torch.tensor([0.4, 0.1, 0.3, 0.2])
    assert removed(score, 0.5).tolist() == [False, True, False, True]
    assert not removed(score, 0.0).any()


def test_an_overlap_by_hand() -> None:
    """Two of four edges each, one of them common: s = 1 / 2."""
    a, b = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    assert overlap.overlap(a, b) == 0.5 and overlap.overlap(a, a) == 1.0


@pytest.mark.parametrize("name", NETS)
def test_a_mask_of_ones_changes_nothing_and_one_of_zeros_removes_edges(name: str) -> None:
    small = random_graph(3)
    net = net_of(name, small).eval()
    masked = Masked(net, small).eval()
    whole = MaskedGraph.of(small)
    with torch.no_grad():
        masked.edge_mask.fill_(1)
        torch.testing.assert_close(masked.run(small.x, whole), net.run(small.x, whole))
        masked.edge_mask.fill_(0)
        bare = small.keep(torch.zeros(small.num_edges, dtype=torch.bool))
        alone = net.run(small.x, MaskedGraph.of(bare))
        torch.testing.assert_close(masked.run(small.x, whole), alone)


def test_every_pair_is_measured_and_the_same_again() -> None:
    small = random_graph(4, nodes=40, edges=120)
    found = overlap.overlaps(small, 0, epochs=2)
    assert tuple(sorted(found)) == tuple(sorted(NAMES))
    assert all(len(one) == len(SHARES) and 0 <= min(one) <= max(one) <= 1 for one in found.values())
    assert overlap.overlaps(small, 0, epochs=2) == found


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    kept, seed = Kept.of(tmp_path, "toy"), {"overlaps": {n: list(SHARES) for n in NAMES}}
    assert kept.read() == {}
    kept.write({0: seed | {"seconds": 1.5}})
    known = kept.read()
    assert known[0]["overlaps"]["GCN, GAT"] == list(SHARES)
    column = graph("toy")
    experiment = EXPERIMENTS["overlap"].on(["toy"])
    made = overlap_table(experiment, {column: known})
    assert made.rows[0] == ["toy", "GCN, GAT", "2.0", "5.0", "10.0", "20.0", "40.0", "1"]
    drawing = overlap_drawing(experiment, {column: known})
    assert drawing is not None and b"another seed" in drawing.svg()
    assert overlap_drawing(experiment, {}) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "shares": [0.02], "seeds": []}'])
def test_a_damaged_file_is_one_line_or_another_version(tmp_path: Path, text: str) -> None:
    kept = Kept(tmp_path / "toy.json")
    kept.path.write_text(text)
    if "shares" in text:
        assert kept.read() == {}
        return
    with pytest.raises(GassipError, match=r"toy\.json is damaged"):
        kept.read()
