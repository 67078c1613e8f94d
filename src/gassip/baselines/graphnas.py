"""GraphNAS: a recurrent controller writes a net layer by layer; its reward is the net's validation
score.

    e_ij = one of 7 attention kinds,   y_i = act(agg_{j ∈ N_i ∪ i} e_ij W x_j),   heads side by side
                                       (last layer: mean)
    ∇J = Σ_s ∇log p(a_s) (R − b)

Gao et al., GraphNAS: Graph Neural Architecture Search with Reinforcement Learning, IJCAI 2020.
Published: 1,000 children of up to 300 epochs each on a GPU. The defaults here are `children = 50`
of `child_epochs = 60`, and a child wider than `max_width = 256` earns 0 untrained, so that a search
takes about two minutes on one core (with so few steps it is close to a random search of this
space); the published search is `children=1000, child_epochs=300, max_width=4096`. The best child on
validation is trained anew in full.

With s, t, v learned vectors, P = X W:

    const 1;   gcn 1/√(d_i d_j);   and softmax over N_i ∪ i of
    gat LeakyReLU(t·P_i + s·P_j);   sym-gat gat_ij + gat_ji;   cos <t∘P_i, s∘P_j>;   linear
                                    tanh(s·P_j);
    gene-linear v·tanh(t∘P_i + s∘P_j)

The aggregators mean, max and mlp first send every message through two Linears (128 between them, no
activation).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.attention import VECTORS, attention_logits
from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.controller import Controller, Reinforce
from gassip.baselines._shared.extra_ops import edge_max, shares, weighted_sum
from gassip.errors import GassipError
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.nn.dropout import drop
from gassip.nn.kernels import transform
from gassip.nn.net import Model
from gassip.nn.propagate import MaskedGraph
from gassip.train.context import RunContext
from gassip.train.plan import Solution
from gassip.train.trainer import seeded, solve, train, validate

ATTENTIONS = ("const", "gcn", "gat", "sym-gat", "cos", "linear", "gene-linear")
AGGREGATORS = ("sum", "mean", "max", "mlp")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "linear": lambda h: h,
    "softplus": F.softplus,
    "leaky_relu": F.leaky_relu,
    "relu6": F.relu6,
    "elu": F.elu,
}
HEADS = (1, 2, 4, 6, 8, 16)
WIDTHS = (4, 8, 16, 32, 64, 128, 256)
POOL = 128  # between the two Linears of a pooling aggregator
PUBLISHED = (1000, 300, 4096)  # children, their epochs, and heads × width of the widest
KINDS = ("attention", "aggregator", "activation", "heads", "width")


@dataclass(frozen=True)
class Block:
    """The choices of one layer; `width` is that of one head."""

    attention: str
    aggregator: str
    activation: str
    heads: int
    width: int

    def __str__(self) -> str:
        return f"{self.attention}/{self.aggregator}/{self.activation}/{self.heads}x{self.width}"


class Attend(nn.Module):
    """One layer of a child: [N, in] -> [N, heads · width], or the mean over heads in the last
    one."""

    def __init__(self, in_width: int, block: Block, *, average: bool, dropout: float) -> None:
        super().__init__()
        self.block, self.average, self.dropout = block, average, dropout
        heads, width = block.heads, block.width
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_width, heads * width)))
        self.bias = nn.Parameter(torch.zeros(width if average else heads * width))
        count = VECTORS.get(block.attention)
        self.vectors = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(count, heads, width)))
            if count
            else None
        )
        pools = block.aggregator != "sum"
        self.pool = nn.Sequential(nn.Linear(width, POOL), nn.Linear(POOL, width)) if pools else None
        for name, parameter in self.named_parameters():
            if name.startswith("pool."):
                nn.init.zeros_(parameter) if parameter.dim() == 1 else nn.init.xavier_uniform_(
                    parameter
                )

    def forward(self, h: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        product = transform(h, self.weight)
        share, self_share = self.shares(product, graph)
        if self.training and self.block.attention in VECTORS:
            share, self_share = (_dropped(s, self.dropout) for s in (share, self_share))
        out = self.aggregate(product, graph, share, self_share)
        if self.average:
            out = out.view(-1, self.block.heads, self.block.width).mean(1)
        return ACTIVATIONS[self.block.activation](out + self.bias)

    def shares(self, product: Tensor, graph: MaskedGraph) -> tuple[Tensor, Tensor]:
        """e_ij [E, H] and e_ii [N, H]."""
        heads, kind = self.block.heads, self.block.attention
        if kind == "const":
            ones = torch.ones(graph.adjacency.shape[0], 1, device=product.device)
            return graph.edge_weight.unsqueeze(1).expand(-1, heads), ones.expand(-1, heads)
        if kind == "gcn":
            edge, here = graph.gcn
            return edge.unsqueeze(1).expand(-1, heads), here.expand(-1, heads)
        assert self.vectors is not None
        return shares(graph, *attention_logits(kind, product, self.vectors, graph))

    def aggregate(
        self, product: Tensor, graph: MaskedGraph, share: Tensor, self_share: Tensor
    ) -> Tensor:
        """The messages, pooled where the aggregator pools; the two Linears are one map Q = P M + b,
        so that Σ (e P M + b) = (Σ e P) M + n b."""
        if self.pool is None:
            return weighted_sum(graph, product, share, self_share)
        heads = self.block.heads
        matrix = self.pool[0].weight.t() @ self.pool[1].weight.t()  # type: ignore[operator]
        shift = (self.pool[1](self.pool[0].bias)).repeat(heads)
        sent = (product.view(-1, self.block.width) @ matrix).view_as(product)
        if self.block.aggregator == "max":
            return edge_max(graph, sent, share, self_share) + shift
        count = 1 + graph.degree.unsqueeze(1)
        total = weighted_sum(graph, sent, share, self_share)
        return total + count * shift if self.block.aggregator == "mlp" else total / count + shift


class Child(Model):
    """A net that the controller wrote."""

    def __init__(
        self, features: int, classes: int, blocks: tuple[Block, ...], dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        last = len(blocks) - 1
        blocks = (*blocks[:-1], replace(blocks[-1], width=classes))
        widths = [features, *(b.heads * b.width for b in blocks[:-1])]
        self.layers = nn.ModuleList(
            Attend(width, block, average=l == last, dropout=dropout)
            for l, (width, block) in enumerate(zip(widths, blocks, strict=True))
        )

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        h: Tensor | Csr = x
        for layer in self.layers:
            h = layer(drop(h, self.dropout if self.training else 0.0), graph)
        assert isinstance(h, Tensor)
        return h


@dataclass(frozen=True, kw_only=True)
class Graphnas(Baseline):
    """The controller, its children and how long they live."""

    layers: int = 2
    children: int = 50  # published: 1000
    child_epochs: int = 60  # published: 300
    max_width: int = 256  # heads × width above which a child earns 0; published: none, 16 × 256
    units: int = 100
    controller_lr: float = 3.5e-4
    tanh_constant: float = 2.5
    temperature: float = 5.0
    entropy: float = 1e-4
    baseline_decay: float = 0.95
    lr: float = 0.005
    weight_decay: float = 5e-4
    dropout: float = 0.6
    epochs: int = 300  # of the best child, trained anew

    def __post_init__(self) -> None:
        for name in ("layers", "children", "child_epochs", "epochs", "units"):
            if getattr(self, name) < 1:
                raise GassipError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.max_width < WIDTHS[0]:
            raise GassipError(f"max_width is {self.max_width}; the narrowest child has {WIDTHS[0]}")

    def budget(self) -> str:
        """What the search was given, beside what was published."""
        amounts = (self.children, self.child_epochs, self.max_width)
        kind = "published" if amounts == PUBLISHED else "reduced"
        count, epochs, width = PUBLISHED
        return (
            f"{kind}: {amounts[0]} children of {amounts[1]} epochs, at most {amounts[2]} wide "
            f"(published {count} of {epochs}, {width})"
        )

    def controller(self) -> Controller:
        """Five choices per layer; the last layer's width is the number of classes and is not
        chosen."""
        options = (ATTENTIONS, AGGREGATORS, tuple(ACTIVATIONS), HEADS, WIDTHS)
        sizes = {kind: len(options[k]) for k, kind in enumerate(KINDS)}
        return Controller(
            (KINDS * self.layers)[:-1],
            sizes,
            units=self.units,
            tanh_constant=self.tanh_constant,
            temperature=self.temperature,
        )

    def blocks(self, graph: Graph, actions: list[int]) -> tuple[Block, ...]:
        """What the controller wrote, as layers."""
        size, names = len(KINDS), tuple(ACTIVATIONS)
        rows = [actions[at : at + size] for at in range(0, len(actions), size)]
        return tuple(
            Block(ATTENTIONS[r[0]], AGGREGATORS[r[1]], names[r[2]], HEADS[r[3]], WIDTHS[r[4]])
            if len(r) == size
            else Block(
                ATTENTIONS[r[0]], AGGREGATORS[r[1]], names[r[2]], HEADS[r[3]], graph.num_classes
            )
            for r in rows
        )

    def reward(
        self, graph: Graph, blocks: tuple[Block, ...], metric: Metric
    ) -> tuple[float, float]:
        """Validation score and minus the loss of a child after its short life; (0, -inf) for one
        too wide."""
        if any(b.heads * b.width > self.max_width for b in blocks[:-1]):
            return 0.0, -torch.inf
        child = Child(graph.num_features, graph.num_classes, blocks, self.dropout).to(graph.device)
        train(
            child,
            graph,
            epochs=self.child_epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            metric=metric,
        )
        value, loss = validate(child, graph, MaskedGraph.of(graph), metric)
        return value, -loss

    def search_blocks(
        self, graph: Graph, run: RunContext
    ) -> tuple[tuple[Block, ...], list[dict[str, object]]]:
        """The best child on validation, and every child with its score."""
        seen: dict[tuple[Block, ...], tuple[float, float]] = {}
        history: list[dict[str, object]] = []
        with seeded(run.seed, graph.device):
            controller = self.controller().to(graph.device)
            teacher = Reinforce(
                controller, lr=self.controller_lr, decay=self.baseline_decay, entropy=self.entropy
            )
            for _ in range(self.children):
                draw = controller.draw(1)
                blocks = self.blocks(graph, draw.actions[0].tolist())
                if blocks not in seen:
                    seen[blocks] = self.reward(graph, blocks, run.metric)
                teacher.step(draw, torch.tensor([seen[blocks][0]], device=graph.device))
                history.append(
                    {"child": " ‖ ".join(map(str, blocks)), "val_score": seen[blocks][0]}
                )
        return max(seen, key=lambda key: seen[key]), history

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began = time.perf_counter()
        blocks, history = self.search_blocks(graph, run)
        spent = time.perf_counter() - began
        solution = solve(
            graph,
            lambda: Child(graph.num_features, graph.num_classes, blocks, self.dropout),
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=run.seed,
            metric=run.metric,
            on_epoch=run.on_event,
        )
        details = {
            "architecture": " ‖ ".join(map(str, blocks)),
            "budget": self.budget(),
            "search_seconds": spent,
            "children": history,
        }
        return replace(solution, seconds=solution.seconds + spent, details=details)


def _dropped(share: Tensor, p: float) -> Tensor:
    out = drop(share, p)
    assert isinstance(out, Tensor)
    return out
