"""SANE: node aggregators, skips and a layer aggregator in one differentiable supernet.

    h_0 = X W + b,   h_l = Σ_n softmax(α_l)_n ELU(n(h_{l-1})),   s_l = Σ_k softmax(β_l)_k k(h_l),  k
                     ∈ {0, identity}
    z = head(Σ_m softmax(δ)_m m(s_1 … s_L)),   m = Linear(ReLU(concat | max | LSTM-attention)),   α,
                                              β, δ ← L_val

Zhao, Yao and Tu, Search to Aggregate Neighborhood for Graph Neural Networks, ICDE 2021. The node
aggregators are its eleven: SAGE (sum, mean, max), GCN, GIN, GAT and its four kin, GeniePath. The
layer aggregators are those of jumping knowledge (Xu et al., ICML 2018). What has the highest α, β
and δ at some epochs of the search is trained from scratch, shortly; the best of these on validation
is the answer. Its hyper-parameters are then tuned on validation, as published (there by 50 trials;
here by `tunings` random draws after the defaults), and it is trained in full. The head of the found
net is a Linear: on few labels an MLP there costs three points of validation (PAPER.md).

Shapes: N nodes, L layers, F hidden width.
"""

import random
import time
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.baseline import Baseline
from gassip.baselines.sane_space import MERGES, NODES, SKIPS, Choices, Head, SaneNet, highest
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import seeded, solve, validate

TUNED: dict[str, tuple[float, ...]] = {
    "hidden": (16, 32, 64, 128, 256),
    "dropout": (0.3, 0.5, 0.6, 0.7, 0.8),
    "input_dropout": (0.5, 0.8),
    "retrain_lr": (0.002, 0.005, 0.01),
    "retrain_weight_decay": (5e-4, 1e-3, 2e-3, 5e-3),
}


@dataclass(frozen=True, kw_only=True)
class Sane(Baseline):
    """The published space; rates at which it trains on few labels. `published` has the search's
    own: see PAPER.md."""

    version: ClassVar[int] = 2

    layers: int = 3
    search_hidden: int = 32
    heads: int = 8
    search_epochs: int = 60
    search_dropout: float = 0.2
    search_input_dropout: float = 0.5
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = 0.02
    lr_min: float = 0.001
    momentum: float = 0.9  # of SGD
    weight_decay: float = 5e-4
    clip: float = 5.0
    lr_alpha: float = 0.01
    alpha_weight_decay: float = 1e-3
    alpha_start: float = 1e-3
    candidates: int = 12  # architectures looked at, at even distances of the search
    candidate_epochs: int = 100
    tunings: int = 10  # draws of the fields below; published: 50 trials
    unit_inputs: bool = (
        True  # sparse x divided by its mean stored value: bags of words count words again
    )
    head: Head = "linear"  # of what was found; the supernet has an MLP
    hidden: int = 64
    dropout: float = 0.6
    input_dropout: float = 0.8
    epochs: int = 300
    retrain_lr: float = 0.005
    retrain_weight_decay: float = 1e-3

    def __post_init__(self) -> None:
        if self.hidden % self.heads or self.search_hidden % self.heads:
            raise GassipError(
                f"heads is {self.heads}; it must divide {self.search_hidden} and {self.hidden}"
            )
        if self.candidates < 1:
            raise GassipError(f"candidates is {self.candidates}; it must be 1 or more")
        if self.tunings < 0:
            raise GassipError(f"tunings is {self.tunings}; it must be 0 or more")

    @staticmethod
    def published() -> "Sane":
        """The rates of its public code, and the architecture of the last epoch."""
        return Sane(
            search_epochs=200,
            search_dropout=0.5,
            search_input_dropout=0.0,
            optimizer="sgd",
            lr=0.025,
            lr_alpha=3e-4,
            candidates=1,
            tunings=0,
            head="mlp",
            unit_inputs=False,
            input_dropout=0.0,
            retrain_weight_decay=5e-4,
        )

    def input_scale(self, graph: Graph) -> float:
        """What x is multiplied by."""
        if (
            not self.unit_inputs
            or not isinstance(graph.x, Csr)
            or graph.x.value is None
            or graph.x.nnz == 0
        ):
            return 1.0
        return 1.0 / max(float(graph.x.value.abs().mean()), 1e-12)

    def search_choices(self, graph: Graph, run: RunContext) -> list[Choices]:
        """DARTS over the three kinds of choices, first order; what stands at each candidate's
        epoch, each once."""
        choices = Choices((NODES,) * self.layers, (SKIPS,) * self.layers, MERGES)
        found: list[Choices] = []
        with seeded(run.seed, graph.device):
            net = SaneNet(
                graph,
                choices,
                self.search_hidden,
                self.heads,
                self.search_dropout,
                input_dropout=self.search_input_dropout,
                input_scale=self.input_scale(graph),
            ).to(graph.device)
            scores = [
                (self.alpha_start * torch.randn_like(zero)).requires_grad_() for zero in net.even()
            ]
            steps = self.optimizers(net, scores)
            masked = MaskedGraph.of(graph)
            net.train()
            ends = {
                self.search_epochs * k // self.candidates for k in range(1, self.candidates + 1)
            }
            for epoch in range(1, self.search_epochs + 1):
                self.epoch(net, scores, graph, masked, *steps)
                if epoch in ends:
                    found.append(highest(choices, scores))
        return list(dict.fromkeys(found))

    def optimizers(
        self, net: SaneNet, scores: list[Tensor]
    ) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        weights: torch.optim.Optimizer
        if self.optimizer == "adam":
            weights = torch.optim.Adam(
                net.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True
            )
        else:
            decay = self.weight_decay
            weights = torch.optim.SGD(
                net.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=decay
            )
        alpha = torch.optim.Adam(
            scores, lr=self.lr_alpha, betas=(0.5, 0.999), weight_decay=self.alpha_weight_decay
        )
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(
            weights, self.search_epochs, eta_min=self.lr_min
        )
        return weights, alpha, cosine

    def epoch(
        self,
        net: SaneNet,
        scores: list[Tensor],
        graph: Graph,
        masked: MaskedGraph,
        weights: torch.optim.Optimizer,
        alpha: torch.optim.Optimizer,
        cosine: torch.optim.lr_scheduler.LRScheduler,
    ) -> None:
        """α, β, δ on validation nodes, then the weights on training nodes."""
        logits = net.mixture(graph.x, masked, scores)
        loss = F.cross_entropy(logits[graph.val_mask], graph.y[graph.val_mask])
        for score, grad in zip(scores, torch.autograd.grad(loss, scores), strict=True):
            score.grad = grad
        alpha.step()
        logits = net.mixture(graph.x, masked, [score.detach() for score in scores])
        loss = F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
        weights.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), self.clip)
        weights.step()
        cosine.step()

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        found_choices = self.search_choices(graph, run)
        judged: dict[Choices, tuple[float, float]] = {}
        for candidate in found_choices if len(found_choices) > 1 else []:
            model = self.trained(graph, candidate, self.candidate_epochs, run.silent()).model
            value, loss = validate(model, graph, MaskedGraph.of(graph), run.metric)
            judged[candidate] = value, -loss
        choices = max(judged, key=judged.__getitem__, default=found_choices[0])
        trials = {str(candidate): value for candidate, (value, _) in judged.items()}
        tuned = self.tuned(graph, choices, run)
        spent = time.perf_counter() - began
        solution = tuned.trained(graph, choices, self.epochs, run)
        details: dict[str, object] = {
            "architecture": str(choices),
            "search_seconds": spent,
            "trials": trials,
            "tuned": {name: getattr(tuned, name) for name in TUNED},
        }
        return replace(solution, seconds=solution.seconds + spent, details=details)

    def tuned(self, graph: Graph, choices: Choices, run: RunContext) -> Self:
        """The hyper-parameters with which this architecture validates best, its own among them."""
        rng = random.Random(run.seed)
        tried = [self, *(self.drawn(rng) for _ in range(self.tunings))]
        if len(tried) == 1:
            return self

        def judged(settings: Self) -> tuple[float, float]:
            model = settings.trained(graph, choices, self.candidate_epochs, run.silent()).model
            value, loss = validate(model, graph, MaskedGraph.of(graph), run.metric)
            return value, -loss

        return max(tried, key=judged)

    def drawn(self, rng: random.Random) -> Self:
        """Other hyper-parameters, from the ranges of TUNED; widths that the heads divide."""
        ranges = TUNED | {"hidden": tuple(w for w in TUNED["hidden"] if not w % self.heads)}
        drawn = {name: rng.choice(values or (self.hidden,)) for name, values in ranges.items()}
        return replace(self, **drawn)  # type: ignore[arg-type]

    def trained(self, graph: Graph, choices: Choices, epochs: int, run: RunContext) -> Solution:
        """One architecture from scratch."""
        scale = self.input_scale(graph)
        return solve(
            graph,
            lambda: SaneNet(
                graph,
                choices,
                self.hidden,
                self.heads,
                self.dropout,
                input_dropout=self.input_dropout,
                input_scale=scale,
                head=self.head,
            ),
            epochs=epochs,
            lr=self.retrain_lr,
            weight_decay=self.retrain_weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )
