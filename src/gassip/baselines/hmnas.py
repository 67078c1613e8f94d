"""HM-NAS: a supernet thinned by three masks, on connections, on operations and on weights.

    h_j = Σ_{i<j} b_ij β_ij Σ_o a_ijo α_ijo · o(h_i; W_ijo ⊙ m_ijo),      α, β softmax shares, a, b,
    m ∈ {0, 1}
    a = [s_a > τ] and likewise b, m;   backwards the step passes the gradient on unchanged
    s_m ← L_train + λ_m mean m,   s_a, s_b ← L_val + λ_a (mean a + mean b)

Three stages: W, α and β are trained; then, with them fixed, the scores s; then W of what the masks
leave. The L0 terms (through the same step) are what thins the net: without them nothing presses on
a score, and nearly every weight stays. A connection ij goes from layer i to a later layer j (h_0 =
X), so any number of connections and of operations on each may stay. Yan, Fang, Zhang, Zheng, Zeng,
Zhang and Xu, HM-NAS: Efficient Neural Architecture Search via Hierarchical Masking, ICCV Workshops
2019. It was made for images and has no public reference: this is its idea on the operations of this
package. Its "edges" are these connections; the graph stays whole.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.baselines._shared.baseline import Baseline
from gassip.baselines._shared.pruning import step_alone
from gassip.graph.csr import Csr
from gassip.graph.graph import Graph
from gassip.nn.dropout import drop
from gassip.nn.kernels import transform
from gassip.nn.net import Layer, Layers, Model
from gassip.nn.propagate import MaskedGraph
from gassip.operations import ALL_OPS
from gassip.train.context import RunContext
from gassip.train.losses import supervised
from gassip.train.plan import Solution
from gassip.train.trainer import conclude, seeded, train


@dataclass(frozen=True)
class Connection:
    """From layer `start` (0 is the input) to layer `end`, by these operations."""

    start: int
    end: int
    ops: tuple[str, ...]


def binary(score: Tensor, threshold: float) -> Tensor:
    """[s > τ] forwards, s backwards."""
    return (score > threshold).to(score.dtype) + (score - score.detach())


class HmNet(Model):
    """Connections between layers; the three kinds of scores act once `add_scores` has made them."""

    def __init__(
        self,
        widths: list[int],
        connections: tuple[Connection, ...],
        dropout: float,
        threshold: float,
    ) -> None:
        super().__init__()
        self.connections, self.widths, self.dropout, self.threshold = (
            connections,
            widths,
            dropout,
            threshold,
        )
        self.layers = Layers(Layer(widths[c.start], widths[c.end], c.ops) for c in connections)
        self.alpha = nn.ParameterList(torch.zeros(len(c.ops)) for c in connections)
        self.beta = nn.Parameter(torch.zeros(len(connections)))
        self.op_scores = nn.ParameterList()
        self.weight_scores = nn.ParameterList()
        self.connection_score: nn.Parameter | None = None
        for number in range(len(connections)):
            self.register_buffer(f"weight_keep_{number}", None)

    def add_scores(self, start: float) -> None:
        """Scores beside every connection, operation and weight, all at `start`."""
        device = self.beta.device
        self.op_scores.extend(torch.full_like(alpha, start) for alpha in self.alpha)
        self.weight_scores.extend(torch.full_like(layer.weight, start) for layer in self.layers)
        self.connection_score = nn.Parameter(
            torch.full((len(self.connections),), start, device=device)
        )

    def weights_share(self) -> Tensor:
        """mean m: the share of weights that the masks leave."""
        left = [binary(score, self.threshold).flatten() for score in self.weight_scores]
        return torch.cat(left).mean()

    def places_share(self) -> Tensor:
        """mean a + mean b: the shares of operations and of connections that the masks leave."""
        assert self.connection_score is not None
        ops = torch.cat([binary(score, self.threshold) for score in self.op_scores])
        return ops.mean() + binary(self.connection_score, self.threshold).mean()

    def connection_share(self) -> Tensor:
        """b_ij β_ij, β a softmax over the connections that end in the same layer."""
        ends = torch.tensor([c.end for c in self.connections], device=self.beta.device)
        grown = torch.exp(self.beta - self.beta.max().detach())
        share = grown / grown.new_zeros(len(self.widths)).index_add(0, ends, grown)[ends]
        return (
            share
            if self.connection_score is None
            else share * binary(self.connection_score, self.threshold)
        )

    def op_share(self, number: int) -> Tensor:
        """a_ijo α_ijo of one connection."""
        share = torch.softmax(self.alpha[number], 0)
        return (
            share
            if not len(self.op_scores)
            else share * binary(self.op_scores[number], self.threshold)
        )

    def weight(self, number: int) -> Tensor:
        """W ⊙ m of one connection."""
        weight, keep = self.layers[number].weight, self._buffers[f"weight_keep_{number}"]
        if len(self.weight_scores):
            return weight * binary(self.weight_scores[number], self.threshold)
        return weight if keep is None else weight * keep

    def run(self, x: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        shares = self.connection_share()
        states: list[Tensor | Csr] = [x]
        for end in range(1, len(self.widths)):
            total = torch.zeros((), device=self.beta.device)
            for number, connection in enumerate(self.connections):
                if connection.end == end:
                    total = total + shares[number] * self.mix(
                        number, states[connection.start], graph
                    )
            states.append(F.relu(total) if end + 1 < len(self.widths) else total)
        assert isinstance(states[-1], Tensor)
        return states[-1]

    def mix(self, number: int, source: Tensor | Csr, graph: MaskedGraph) -> Tensor:
        """Σ_o a_o α_o · o(h_i) of one connection, [N, F]."""
        layer, share = self.layers[number], self.op_share(number)
        dropped = drop(source, self.dropout if self.training else 0.0)
        parts = layer.apart(transform(dropped, self.weight(number)))
        bounds = zip(layer.first, layer.first[1:], strict=False)
        outputs = [
            share[k] * layer.propagate(k, parts[a:b], graph) for k, (a, b) in enumerate(bounds)
        ]
        return torch.stack(outputs).sum(0)

    def prune(self, number: int, keep: Tensor) -> None:
        """Remove the weights of a connection that are not marked."""
        self.register_buffer(f"weight_keep_{number}", keep)
        self.zero_pruned()

    @torch.no_grad()
    def zero_pruned(self) -> None:
        for number, layer in enumerate(self.layers):
            if (keep := self._buffers[f"weight_keep_{number}"]) is not None:
                layer.weight.mul_(keep)

    def num_weights(self) -> tuple[int, int]:
        total = sum(p.numel() for p in self.parameters())
        keeps = [self._buffers[f"weight_keep_{number}"] for number in range(len(self.layers))]
        return total - sum(k.numel() - int(k.sum()) for k in keeps if k is not None), total


def kept_connections(
    connections: tuple[Connection, ...],
    connection_score: Tensor,
    op_scores: list[Tensor],
    threshold: float,
    last: int,
) -> list[tuple[int, list[int]]]:
    """(number of a connection, numbers of its operations) that the masks leave and the output can
    see.

    A layer that is read keeps at least its best connection, a connection at least its best
    operation.
    """
    kept: list[tuple[int, list[int]]] = []
    read = {last}
    for end in range(last, 0, -1):
        into = [n for n, c in enumerate(connections) if c.end == end]
        if end not in read:
            continue
        alive = [n for n in into if connection_score[n] > threshold]
        for n in alive or [max(into, key=lambda n: float(connection_score[n]))]:
            ops = [k for k, value in enumerate(op_scores[n].tolist()) if value > threshold]
            kept.append((n, ops or [int(op_scores[n].argmax())]))
            read.add(connections[n].start)
    return sorted(kept)


@dataclass(frozen=True, kw_only=True)
class HmNas(Baseline):
    """The counts and rates are ours; the start and threshold of the scores are those of Piggyback
    (Mallya 2018)."""

    version: ClassVar[int] = 2

    ops: tuple[str, ...] = ALL_OPS
    layers: int = 2
    hidden: int = 64
    dropout: float = 0.5
    search_epochs: int = 100  # of W, α, β
    mask_epochs: int = 100
    epochs: int = 300  # of what is left
    score_start: float = 0.01
    threshold: float = 0.005  # τ
    lr: float = 0.01
    lr_share: float = 0.03  # of α and β
    lr_score: float = 1e-3
    l0_weight: float = 1.0  # λ_m
    l0_place: float = 0.1  # λ_a
    weight_decay: float = 5e-4

    def solve(self, graph: Graph, run: RunContext) -> Solution:
        began, run = time.perf_counter(), run.counted()
        with seeded(run.seed, graph.device):
            net = self.supernet(graph)
            self.train_shares(net, graph, run)
            self.learn_masks(net, graph, run)
            thin = thinned(net)
            best_epoch = train(
                thin,
                graph,
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                metric=run.metric,
                on_epoch=run.on_event,
            )
        kept = [f"{c.start} → {c.end}: {' + '.join(c.ops)}" for c in thin.connections]
        return conclude(
            thin,
            graph,
            began=began,
            best_epoch=best_epoch,
            details={"architecture": "; ".join(kept)},
        )

    def supernet(self, graph: Graph) -> HmNet:
        widths = [graph.num_features, *[self.hidden] * (self.layers - 1), graph.num_classes]
        pairs = [(i, j) for j in range(1, self.layers + 1) for i in range(j)]
        connections = tuple(Connection(i, j, self.ops) for i, j in pairs)
        return HmNet(widths, connections, self.dropout, self.threshold).to(graph.device)

    def train_shares(self, net: HmNet, graph: Graph, run: RunContext) -> None:
        """W on the training nodes, α and β on the validation nodes."""
        lower, upper = list(net.layers.parameters()), [net.beta, *net.alpha]
        optimizer = torch.optim.Adam(lower, lr=self.lr, weight_decay=self.weight_decay, fused=True)
        share_optimizer = torch.optim.Adam(upper, lr=self.lr_share, betas=(0.5, 0.999))
        alternate(net, graph, (lower, optimizer), (upper, share_optimizer), self.search_epochs, run)

    def learn_masks(self, net: HmNet, graph: Graph, run: RunContext) -> None:
        """Scores of weights on the training nodes, of operations and connections on the validation
        nodes."""
        net.add_scores(self.score_start)
        assert net.connection_score is not None
        lower, upper = list(net.weight_scores), [net.connection_score, *net.op_scores]
        optimizer = torch.optim.Adam(lower, lr=self.lr_score, fused=True)
        score_optimizer = torch.optim.Adam(upper, lr=self.lr_score, betas=(0.5, 0.999))
        alternate(
            net,
            graph,
            (lower, optimizer),
            (upper, score_optimizer),
            self.mask_epochs,
            run,
            lambda: (self.l0_weight * net.weights_share(), self.l0_place * net.places_share()),
        )


Stepped = tuple[list[nn.Parameter], torch.optim.Optimizer]


def alternate(
    net: HmNet,
    graph: Graph,
    lower: Stepped,
    upper: Stepped,
    epochs: int,
    run: RunContext,
    pressure: Callable[[], tuple[Tensor, Tensor]] | None = None,
) -> None:
    """`lower` down the training loss and `upper` down the validation loss, in turn, each with its
    part of `pressure`."""
    masked = MaskedGraph.of(graph)
    for epoch in range(1, epochs + 1):
        net.train()
        loss = supervised(net, graph, masked, epoch)
        step_alone(lower[1], lower[0], loss + pressure()[0] if pressure else loss)
        net.eval()
        logits = net.run(graph.x, masked)
        choice = F.cross_entropy(logits[graph.val_mask], graph.y[graph.val_mask])
        step_alone(upper[1], upper[0], choice + pressure()[1] if pressure else choice)
        if run.on_event is not None:
            run.on_event({"epoch": epoch, "train_loss": float(loss.detach())})


@torch.no_grad()
def thinned(net: HmNet) -> HmNet:
    """A net of what the masks leave, with its trained weights and shares."""
    assert net.connection_score is not None
    last = len(net.widths) - 1
    left = kept_connections(
        net.connections, net.connection_score, list(net.op_scores), net.threshold, last
    )
    chosen = [(net.connections[n], ops) for n, ops in left]
    slim = tuple(Connection(c.start, c.end, tuple(c.ops[k] for k in ops)) for c, ops in chosen)
    thin = HmNet(net.widths, slim, net.dropout, net.threshold).to(net.beta.device)
    for number, (n, ops) in enumerate(left):
        source, target = net.layers[n], thin.layers[number]
        columns = torch.cat(
            [
                torch.arange(source.weight.shape[1], device=net.beta.device)[source.columns(k)]
                for k in ops
            ]
        )
        target.weight.copy_(source.weight[:, columns])
        target.bias.copy_(source.bias[ops])
        if target.attention is not None and source.attention is not None:
            target.attention.copy_(source.attention)
        thin.alpha[number].copy_(net.alpha[n][ops])  # the shares of what is left sum to 1 again
        thin.beta[number] = net.beta[n]
        thin.prune(number, net.weight_scores[n][:, columns] > net.threshold)
    return thin
