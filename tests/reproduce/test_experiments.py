"""The list of tables and figures is whole, and says what the paper prints."""

import pytest

from gassip.errors import GassipError
from gassip.graph.known_datasets import DATASETS
from gassip.methods import METHODS
from gassip.reproduce.experiments import EXPERIMENTS, Column, chosen, graph
from gassip.reproduce.printed import PRINTED, lines


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_and_columns_exist_once(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert {row.method for row in experiment.rows} <= METHODS.keys()
    assert {column.dataset for column in experiment.columns} <= DATASETS.keys()
    for labels in (
        [row.label for row in experiment.rows],
        [column.label for column in experiment.columns],
    ):
        assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_stands_beside_a_cell(name: str) -> None:
    experiment = EXPERIMENTS[name]
    columns = {column.label for column in experiment.columns}
    assert all(set(cells) <= columns for cells in PRINTED[name].values())
    if experiment.show != "statistics":
        assert set(PRINTED[name]) <= {row.label for row in experiment.rows if not row.beside}


def test_some_printed_cells() -> None:
    main = PRINTED["main"]
    assert main["GASSIP"]["Cora"] == "83.20±0.42" and main["GCN"]["Physics"] == "97.43±0.12"
    assert main["GAUSS"]["Ogbn-Arxiv"] == "71.85±0.41" and main["PTDNet"]["Ogbn-Arxiv"] == "OOM"
    assert PRINTED["noisy-edges"]["GASSIP"] == {"1k": "79.26±0.49", "5k": "73.80±0.64"}
    assert PRINTED["mettack"]["GCN Jaccard"]["CiteSeer, 5 %"] == "56.97±1.90"
    assert PRINTED["retrain-time"]["ARMA"]["Physics"] == "79.96"
    assert PRINTED["archs-k"]["K = 2"]["CiteSeer"] == "71.42±0.56"
    assert float(PRINTED["search-time"]["GraphNAS"]["Cora"]) == pytest.approx(60 * 223.80)
    assert PRINTED["datasets"]["edges"]["Physics"] == "495,924"


def test_rows_of_print_are_read_by_column() -> None:
    assert lines(("a", "b"), one="1 -", two_words="3 4") == {
        "one": {"a": "1"},
        "two words": {"a": "3", "b": "4"},
    }


def test_an_experiment_on_other_graphs() -> None:
    main, mettack = EXPERIMENTS["main"], EXPERIMENTS["mettack"]
    assert main.on(None) is main
    assert main.on(["photo", "cora"]).columns == (graph("cora"), graph("photo"))
    assert main.on(["photo"]).columns == (Column(label="photo", dataset="photo"),)
    assert mettack.on(["photo"]).columns == ()
    assert [column.attack for column in mettack.on(["cora"]).columns] == [
        "mettack-0.05",
        "mettack-0.25",
    ]


def test_names() -> None:
    assert chosen([]) == EXPERIMENTS
    assert list(chosen(["overlap", "main"])) == ["main", "overlap"]
    with pytest.raises(GassipError, match="no experiment 'mian'; did you mean main"):
        chosen(["mian"])
