from dataclasses import replace

import torch
from torch import Tensor, nn

from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Model, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.settings.training import Recipe
from gassip.train.losses import (
    Targets,
    agreement,
    class_weights,
    sharpened,
    supervised,
    training_loss,
)
from tests.conftest import random_graph


class Fixed(Model):
    """The same class scores in every pass, as parameters."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        return self.logits


def test_sharpening_by_hand() -> None:
    # squares of .8 and .2 are .64 and .04: .64 / .68
    share = torch.tensor([[0.8, 0.2]])
    torch.testing.assert_close(sharpened(share, 0.5), torch.tensor([[0.64 / 0.68, 0.04 / 0.68]]))
    torch.testing.assert_close(sharpened(share, 1.0), share)
    assert torch.isfinite(sharpened(torch.tensor([[1.0, 0.0]]), 0.5)).all()


def test_consistency_by_hand() -> None:
    # the mean of (1, 0) and (.6, .4) is (.8, .2), at T = 1 the target: (.2² + .2²) for both passes
    scores = torch.stack([torch.tensor([[50.0, 0.0]]), torch.tensor([[0.6, 0.4]]).log()], 1)
    none = torch.zeros(1, 2)
    assert abs(float(agreement(scores, none, 1.0, 1.0)) - 0.08) < 1e-6
    assert float(agreement(torch.zeros(1, 2, 2), none, 1.0, 0.5)) < 1e-12


def test_consistency_pulls_a_pass_towards_the_target_and_not_the_target_towards_it() -> None:
    shares = [torch.tensor([[0.9, 0.1]]), torch.tensor([[0.5, 0.5]])]
    scores = [share.log().requires_grad_() for share in shares]
    agreement(torch.stack(scores, 1), torch.zeros(1, 2), 1.0, 1.0).backward()
    # target (.7, .3) is a constant: the gradient of ½ ‖p − q‖² by p is p − q; softmax turns g into
    # p (g − <p, g>): .9 · (.2 − (.18 − .02)) = .036 and .5 · (−.2 − 0) = −.1
    torch.testing.assert_close(scores[0].grad, torch.tensor([[0.036, -0.036]]))
    torch.testing.assert_close(scores[1].grad, torch.tensor([[-0.1, 0.1]]))


def test_the_gradient_by_hand_is_that_of_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = [torch.randn(5, 3, generator=generator).requires_grad_() for _ in range(2)]
    targets = torch.rand(5, 3, generator=generator)
    agreement(torch.stack(scores, 1), targets, 0.7, 0.5).backward()
    again = [own.detach().requires_grad_() for own in scores]
    shares = [torch.softmax(own, 1) for own in again]
    with torch.no_grad():
        target = sharpened((shares[0] + shares[1]) / 2, 0.5)
    apart = torch.stack([(share - target).square().sum(1).mean() for share in shares]).sum()
    labels = torch.stack([(-(targets * share.log())).sum() for share in shares]).sum()
    ((labels + 0.7 * apart) / 2).backward()
    for own, other in zip(scores, again, strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_without_more_to_learn_from_it_is_plain_cross_entropy() -> None:
    teacher = torch.ones(3, 2) / 2
    assert training_loss(Recipe()) is supervised
    assert training_loss(Recipe(distillation=0.0), teacher) is supervised
    assert training_loss(Recipe(distillation=1.0), None) is supervised
    assert training_loss(Recipe(distillation=1.0), teacher) is not supervised
    assert training_loss(Recipe(consistency=1.0)) is not supervised


def loss_of(
    recipe: Recipe, graph: Graph, logits: Tensor, teacher: Tensor | None, epoch: int
) -> float:
    return float(
        training_loss(recipe, teacher)(Fixed(logits), graph, MaskedGraph.of(graph), epoch).detach()
    )


def test_the_parts_add_up_under_their_weights() -> None:
    graph, generator = random_graph(2), torch.Generator().manual_seed(0)
    logits = torch.randn(graph.num_nodes, graph.num_classes, generator=generator)
    teacher = torch.softmax(torch.randn(logits.shape, generator=generator), 1)
    plain = loss_of(Recipe(), graph, logits, None, 1)
    others, log_share = ~graph.train_mask, torch.log_softmax(logits, 1)
    taught = float(-(teacher[others] * log_share[others]).sum(1).mean())
    agreed = float(agreement(torch.stack([logits] * 2, 1), torch.zeros_like(logits), 1.0, 0.5))
    known = float(graph.train_mask.float().mean())
    alone = Recipe(consistency=2.0, consistency_ramp=50)
    assert abs(loss_of(alone, graph, logits, None, 25) - (plain + 0.5 * 2 * agreed)) < 1e-5
    assert abs(loss_of(alone, graph, logits, None, 500) - (plain + 2 * agreed)) < 1e-5
    both = replace(alone, distillation=3.0)
    assert (
        abs(loss_of(both, graph, logits, teacher, 25) - (known * plain + 3 * (1 - known) * taught))
        < 1e-5
    )


def test_a_taught_net_hears_of_each_node_once() -> None:
    graph = random_graph(2)
    logits = torch.randn(
        graph.num_nodes, graph.num_classes, generator=torch.Generator().manual_seed(0)
    )
    teacher = torch.full_like(logits, 1 / graph.num_classes)
    targets = torch.where(
        graph.train_mask[:, None], torch.eye(graph.num_classes)[graph.y.clamp_min(0)], teacher
    )
    expected = float(torch.nn.functional.cross_entropy(logits, targets))  # the mean over all nodes
    assert abs(loss_of(Recipe(distillation=1.0), graph, logits, teacher, 1) - expected) < 1e-5


def test_what_a_teacher_says_of_labelled_nodes_changes_nothing() -> None:
    graph = random_graph(2)
    logits = torch.randn(
        graph.num_nodes, graph.num_classes, generator=torch.Generator().manual_seed(0)
    )
    teacher = torch.full_like(logits, 1 / graph.num_classes)
    other = teacher.clone()
    other[graph.train_mask] = 0.0
    recipe = Recipe(distillation=1.0)
    assert loss_of(recipe, graph, logits, teacher, 1) == loss_of(recipe, graph, logits, other, 1)
    everything = replace(graph, train_mask=torch.ones_like(graph.train_mask))
    alone = loss_of(Recipe(), everything, logits, None, 1)
    assert abs(loss_of(recipe, everything, logits, teacher, 1) - alone) < 1e-6


def test_two_passes_differ_by_dropout_alone() -> None:
    graph = random_graph(3)
    architecture = Architecture(ops=("GCNConv", "GCNConv"), hidden=(8,))
    for dropout, equal in ((0.0, True), (0.5, False)):
        net = net_for(graph, architecture, dropout).train()
        masked, runs = MaskedGraph.of(graph), []
        torch.manual_seed(0)
        for _ in range(2):
            runs.append(net.run(graph.x, masked))
        assert torch.equal(*runs) == equal


def test_weighted_classes_weigh_as_much_as_each_other() -> None:
    graph = random_graph(1, nodes=30)
    y = torch.where(torch.arange(30) < 27, 0, 1)
    train = torch.zeros(30, dtype=torch.bool)
    train[20:] = True  # seven of class 0, three of class 1, none of class 2
    own = replace(graph, y=y, train_mask=train)
    torch.testing.assert_close(class_weights(own), torch.tensor([10 / 21, 10 / 9, 1.0]))
    targets = Targets(Recipe(class_weights=True)).of(own)
    torch.testing.assert_close(targets.sum(0), torch.tensor([1 / 3, 1 / 3, 0.0]))
    teacher = torch.full((30, 3), 1 / 3)
    taught, plain = (
        Targets(Recipe(class_weights=weighted, distillation=1.0), teacher).of(own)
        for weighted in (True, False)
    )
    torch.testing.assert_close(taught, plain * class_weights(own))
