from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from gassip.graph.graph import Graph
from gassip.metrics import METRICS, Metric, all_scores, score

# predicted 0, 1, 1, 2; true 0, 1, 2, 2
LOGITS = torch.tensor([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 4.0]])
Y = torch.tensor([0, 1, 2, 2])


def test_accuracy_by_hand() -> None:
    assert score("accuracy", LOGITS, Y) == 0.75


def test_macro_f1_by_hand() -> None:
    # class 0: 1; class 1: precision 1/2, recall 1 -> 2/3; class 2: precision 1, recall 1/2 -> 2/3;
    # mean 7/9
    assert score("macro-f1", LOGITS, Y) == pytest.approx(7 / 9)


def test_binary_roc_auc_by_hand() -> None:
    # class 1 scores .4 and .8, class 0 .1 and .35: all four pairs are in order; with .3 for .4 one
    # of them is not
    right = torch.tensor([[0.0, 0.1], [0.0, 0.4], [0.0, 0.35], [0.0, 0.8]])
    wrong = torch.tensor([[0.0, 0.1], [0.0, 0.3], [0.0, 0.35], [0.0, 0.8]])
    y = torch.tensor([0, 1, 0, 1])
    assert score("roc-auc", right, y) == 1.0
    assert score("roc-auc", wrong, y) == 0.75


@given(st.integers(0, 999), st.integers(2, 5))
def test_all_agree_with_scikit_learn(seed: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(40, classes, generator=generator)
    y = torch.cat(
        [torch.arange(classes), torch.randint(classes, (40 - classes,), generator=generator)]
    )
    guess, share = logits.argmax(1), torch.softmax(logits.double(), 1).numpy()
    assert score("accuracy", logits, y) == pytest.approx(accuracy_score(y, guess))
    assert score("macro-f1", logits, y) == pytest.approx(f1_score(y, guess, average="macro"))
    expected = (
        roc_auc_score(y, share[:, 1])
        if classes == 2
        else roc_auc_score(y, share, multi_class="ovr")
    )
    assert score("roc-auc", logits, y) == pytest.approx(expected)


@given(st.integers(0, 999), st.integers(2, 6), st.integers(1, 4))
def test_ties_and_absent_answers_agree_with_scikit_learn(
    seed: int, classes: int, levels: int
) -> None:
    """Logits of few levels: most scores are tied, some classes are never called."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(levels, (50, classes), generator=generator).float()
    y = torch.cat(
        [torch.arange(classes), torch.randint(classes, (50 - classes,), generator=generator)]
    )
    share = torch.softmax(logits.double(), 1).numpy()
    expected = (
        roc_auc_score(y, share[:, 1])
        if classes == 2
        else roc_auc_score(y, share, multi_class="ovr")
    )
    assert score("roc-auc", logits, y) == pytest.approx(expected, abs=1e-12)
    f1 = f1_score(y, logits.argmax(1), average="macro", zero_division=0)
    assert score("macro-f1", logits, y) == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_no_nodes_no_score(metric: Metric) -> None:
    assert score(metric, LOGITS[:0], Y[:0]) is None


def test_roc_auc_is_undefined_where_a_class_is_absent() -> None:
    assert score("roc-auc", LOGITS[1:], Y[1:]) is None
    assert score("macro-f1", LOGITS[1:], Y[1:]) == pytest.approx(2 / 3)  # classes 1 and 2 only


def test_all_scores_reads_each_split(path: Graph) -> None:
    # train: nodes 0, 1 (true 0, 1); val: node 2 (true 0); test: node 3 (true 1); everything is
    # called class 0
    table = all_scores(torch.tensor([[1.0, 0.0]] * 4), path)
    assert table["accuracy"] == {"train": 0.5, "val": 1.0, "test": 0.0}
    assert table["roc-auc"] == {"train": 0.5}
    empty = replace(path, test_mask=torch.zeros(4, dtype=torch.bool))
    assert set(all_scores(torch.ones(4, 2), empty)["accuracy"]) == {"train", "val"}
