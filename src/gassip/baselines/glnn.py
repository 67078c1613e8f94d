"""GLNN: a GNN teaches an MLP, which then needs no graph.

    L = λ · CE(z_i, y_i) over training nodes + (1 − λ) · τ² · KL(softmax(t_i/τ) ‖ softmax(z_i/τ))
    over all nodes

with the teacher's class scores t. Zhang, Liu, Sun and Shah, Graph-less Neural Networks: Teaching
Old MLPs New Tricks via Distillation, ICLR 2022.
"""

import time
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.pruning import Start
from gassip.graph.graph import Graph
from gassip.nn.net import Architecture, Model, net_for
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.plan import Plan, Solution
from gassip.train.trainer import conclude, predict, seeded, train


def distillation(
    logits: Tensor, teacher: Tensor, y: Tensor, labelled: Tensor, *, hard: float, temperature: float
) -> Tensor:
    """λ CE on the labelled nodes + (1 − λ) τ² KL(teacher ‖ student) on all of them."""
    target = F.log_softmax(teacher / temperature, 1)
    soft = F.kl_div(
        F.log_softmax(logits / temperature, 1), target, reduction="batchmean", log_target=True
    )
    loss = (1 - hard) * temperature**2 * soft
    return loss + hard * F.cross_entropy(logits[labelled], y[labelled]) if hard > 0 else loss


# The GCNs of bench/tuned.json.
TEACHERS: dict[str, dict[str, float]] = {
    "citeseer": {"teacher_hidden": 256},
    "photo": {"teacher_hidden": 128, "teacher_dropout": 0.5},
    "physics": {"teacher_hidden": 256, "teacher_dropout": 0.6},
    "coauthor-cs": {"teacher_hidden": 128},
    "actor": {"teacher_hidden": 16},
}


@dataclass(frozen=True, kw_only=True)
class Glnn(Baseline):
    """The published student (two layers of 128, λ = 0, dropout .6) of the tuned GCN; weight decay
    as published starves it on row-normalised words (PAPER.md)."""

    version: ClassVar[int] = 2

    hidden: int = 128
    dropout: float = 0.6
    hard: float = 0.0  # λ
    temperature: float = 1.0  # τ
    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 0.0  # published: 0 to 5e-3
    teacher_hidden: int = 64
    teacher_dropout: float = 0.8
    teacher_epochs: int = 300
    teacher_lr: float = 0.01
    teacher_weight_decay: float = 5e-4

    @classmethod
    def for_graph(cls, graph: Graph) -> Self:
        """The teacher as the GCN was tuned for this graph, where it was."""
        name = graph.name if graph.name in TEACHERS else graph.name.split("-")[0]
        return cls(**TEACHERS.get(name, {}))  # type: ignore[arg-type]

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        """From a GCN of two layers on the whole graph."""
        return self.distil(Start.gcn(graph, self.teacher_hidden), graph, run)

    def solve_from(self, plan: Plan, graph: Graph, run: RunContext) -> Solution:
        """From the net that a search has found, on the edges that it kept."""
        return self.distil(Start.of(plan, graph), graph, run)

    def distil(self, start: Start, graph: Graph, run: RunContext) -> Solution:
        began, run = time.perf_counter(), run.counted()
        bare = graph.keep(torch.zeros(graph.num_edges, dtype=torch.bool, device=graph.device))
        with seeded(run.seed, graph.device):
            scores = self.teach(start, run)
            student = net_for(
                graph, Architecture(ops=("Linear", "Linear"), hidden=(self.hidden,)), self.dropout
            )
            best_epoch = train(
                student,
                bare,
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                metric=run.metric,
                loss=lambda model, given, masked, epoch: self.loss(model, given, masked, scores),
                on_epoch=run.on_event,
            )
        return conclude(
            student, bare, began=began, best_epoch=best_epoch, edges_total=graph.num_edges
        )

    def teach(self, start: Start, run: RunContext) -> Tensor:
        """The class scores of a trained GNN, [N, C]."""
        teacher = start.net(self.teacher_dropout)
        teacher.prune(start.keep(teacher))
        train(
            teacher,
            start.graph,
            epochs=self.teacher_epochs,
            lr=self.teacher_lr,
            weight_decay=self.teacher_weight_decay,
            metric=run.metric,
            on_epoch=run.on_event,
        )
        return predict(teacher, start.graph)

    def loss(self, model: Model, graph: Graph, masked: MaskedGraph, teacher: Tensor) -> Tensor:
        logits = model.run(graph.x, masked)
        return distillation(
            logits, teacher, graph.y, graph.train_mask, hard=self.hard, temperature=self.temperature
        )
