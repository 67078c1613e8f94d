import torch

from gassip.nn.ranking import highest, highest_overall


def test_highest_takes_the_earlier_of_equal_scores() -> None:
    score = torch.tensor([1.0, 2.0, 1.0, 1.0])
    assert highest(score, 2).tolist() == [True, True, False, False]
    assert highest(score, 0).tolist() == [False] * 4
    assert highest(score, 9).tolist() == [True] * 4
    assert highest(torch.zeros(5000), 2000).nonzero().flatten().tolist() == list(range(2000))


def test_the_highest_over_all_layers_keep_their_shapes() -> None:
    # of 5, 1, 4 | 3, 2 the three highest are 5, 4 and 3
    scores = [torch.tensor([[5.0], [1.0], [4.0]]), torch.tensor([[3.0, 2.0]])]
    kept = highest_overall(scores, 3)
    assert [keep.tolist() for keep in kept] == [[[True], [False], [True]], [[True, False]]]


def test_highest_is_a_stable_sort() -> None:
    score = torch.randint(0, 50, (400,), generator=torch.Generator().manual_seed(0)).float()
    for count in (1, 57, 399):
        first = torch.sort(score, descending=True, stable=True).indices[:count]
        assert torch.equal(highest(score, count).nonzero().flatten(), first.sort().values)
