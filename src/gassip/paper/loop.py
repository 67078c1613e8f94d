"""The search, Algorithm 2: weights and their masks, the structure mask, the architecture, epoch by
epoch (Sec. 4.4).

    W*, M_W* = argmin L_train(A ⊙ M_G, W ⊙ M_W, α)      on training nodes
    M_G*     = argmin L_struct(A ⊙ M_G, W ⊙ M_W, α)     Algorithm 1, K architectures
    α*       = argmin L_val(A ⊙ M_G, W ⊙ M_W, α)        on validation nodes, first order

DARTS is the same loop with `prune` and `sparsify` off. No test label is read here.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.best.student import graduate
from gassip.best.teacher import Contest, Memory, facing, teach
from gassip.best.teacher import Row as Row
from gassip.graph.graph import Graph
from gassip.metrics import Metric, score
from gassip.nn.kernels import transform
from gassip.nn.net import Architecture
from gassip.nn.propagate import MaskedGraph
from gassip.operations import MORE_OPS, NET_OPS, OPERATIONS
from gassip.paper import curriculum
from gassip.paper.masks import edge_keep, edge_mask, group_keep, weight_keep, weight_mask
from gassip.paper.supernet import Path, Supernet, top_paths
from gassip.settings import Gassip, preset
from gassip.train.shrink import compact
from gassip.train.trainer import Found, oriented, seeded

MOST_PATHS = 64  # that are compared one by one


class Checkpoint(Memory, Protocol):
    """Where a search keeps its state between epochs, and the nets of its contest, so that a killed
    one can go on."""

    def load(self) -> "tuple[dict[str, Tensor], list[Row]] | None": ...

    def save(self, tensors: Callable[[], dict[str, Tensor]], history: list[Row]) -> None:
        """Called after every epoch; `tensors` gathers the state, and is called only when it is to
        be written."""


def search(
    graph: Graph,
    settings: Gassip | None = None,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[Row], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Found:
    """Run Algorithm 2 on `graph`, then the contest where the settings ask for one (by default: the
    preset `best`).

    Equal seeds give equal bits on one machine and thread count.
    """
    settings = facing(graph, settings or preset("best", graph), metric)
    graph = oriented(graph, settings)
    with seeded(seed, graph.device):
        state = State(graph, settings)
        if checkpoint is not None and (saved := checkpoint.load()) is not None:
            state.restore(*saved)
        while len(state.history) < settings.epochs:
            state.history.append(epoch(state, metric))
            if on_epoch is not None:
                on_epoch(state.history[-1])
            if checkpoint is not None:
                checkpoint.save(state.tensors, state.history)
        if settings.teachers == 0:
            return induce(state)  # lines 9-11
        return contested(state, seed=seed, metric=metric, on_epoch=on_epoch, memory=checkpoint)


def contested(
    state: "State",
    *,
    seed: int,
    metric: Metric,
    on_epoch: Callable[[Row], None] | None,
    memory: Memory | None,
) -> Found:
    """Past the paper: architectures compete, teach, and the final net is chosen on validation
    (METHOD.md)."""
    rows: list[Row] = []

    def tell(row: Row) -> None:
        rows.append(row)
        if on_epoch is not None:
            on_epoch(row)

    contest = Contest(
        state.graph,
        seed=seed,
        metric=metric,
        tell=tell,
        first_epoch=len(state.history),
        memory=memory,
    )
    lesson = teach(contest, candidates(state, metric), state.settings)
    found = graduate(contest, lesson, induce(state))
    history = [*found.history, *rows]
    return replace(
        found,
        searched=state.settings,
        history=history,
        seconds=sum(float(row["seconds"]) for row in history),
    )


def candidates(state: "State", metric: Metric) -> list[Architecture]:
    """The finalists: the portfolio, then what the supernet ranks highest (or, as a control,
    any)."""
    settings = state.settings
    named = [tuple(text.split("+")) for text in settings.portfolio]
    choice = (
        NET_OPS if set(MORE_OPS) <= set(settings.ops) else settings.ops
    )  # a narrower choice is the user's
    known = [ops for ops in named if len(ops) == settings.layers and set(ops) <= set(choice)]
    paths = ranked_paths(state, metric)
    if settings.ranking == "random":
        paths = [paths[k] for k in torch.randperm(len(paths)).tolist()]
    ranked = [tuple(settings.ops[k] for k in path) for path in paths]
    light = [
        ops for ops in ranked if all(OPERATIONS[op].steps == 1 for op in ops[:-1])
    ]  # many steps only where narrow
    ranked = light or ranked
    return [_architecture(settings, ops) for ops in dict.fromkeys([*known, *ranked])][
        : settings.finalists
    ]


@torch.no_grad()
def ranked_paths(state: "State", metric: Metric) -> list[Path]:
    """Architectures by how their paths of the supernet validate, best first, among the most
    probable ones."""
    graph, net, weights = state.graph, state.supernet, state.weights()
    products = transform(graph.x, weights[0])
    values = []
    for path in top_paths(net.alpha, MOST_PATHS):
        logits = net(graph.x, state.masked, weights, path=path, first_products=products)[
            graph.val_mask
        ]
        y = graph.y[graph.val_mask]
        value, loss = score(metric, logits, y), float(F.cross_entropy(logits, y))
        values.append((-loss if value is None else value, -loss, path))
    return [path for *_, path in sorted(values, key=lambda own: own[:2], reverse=True)]


def epoch(state: "State", metric: Metric) -> Row:
    """One turn of the loop: what it did, and what the search would hand over if it ended now."""
    began = time.perf_counter()
    number = len(state.history) + 1
    row: Row = {"epoch": number} | step_weights(state)  # line 2
    if number >= state.settings.warmup_epochs:  # lines 3-5
        with torch.no_grad():  # W and M_W stand still while S_G and α are stepped
            weights = state.weights()
        products = (
            None if state.settings.structure_dropout else transform(state.graph.x, weights[0])
        )
        if state.settings.sparsify:
            row |= step_structure(state, weights, products)  # line 6, Algorithm 1
        row |= step_alpha(state, weights, products, metric)  # line 7
    return row | outlook(state) | {"seconds": time.perf_counter() - began}


class State:
    """Everything that moves during a search."""

    def __init__(self, graph: Graph, settings: Gassip) -> None:
        self.graph, self.settings = graph, settings
        shape = _architecture(settings, settings.ops[:1] * settings.layers)
        self.supernet = Supernet(
            graph.num_features,
            graph.num_classes,
            settings.ops,
            shape,
            weight_gain=settings.weight_gain if settings.prune else 1.0,
            alpha_start=settings.alpha_start,
            score_mean=settings.score_mean,
            score_std=settings.score_std,
            weight_groups=settings.weight_groups,
        ).to(graph.device)
        directed = torch.arange(graph.num_edges, device=graph.device)
        self.slot = (
            graph.pair if settings.edge_scores == "undirected" else directed
        )  # [E] the score of each edge
        count = int(self.slot.max()) + 1
        self.edge_score = nn.Parameter(
            torch.full((count,), settings.edge_start, device=graph.device)
        )
        self.threshold = nn.Parameter(torch.tensor(settings.threshold_start, device=graph.device))
        self.grad_std = torch.zeros(count, device=graph.device)  # D_a of the last structure step
        self.logits: Tensor | None = None  # z of the last α step
        self.first = {
            k: v.clone() for k, v in self.operations().items()
        }  # W as it starts, for a rewind
        self.history: list[Row] = []
        self.optimizers = self._optimizers()
        self.refresh()

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        settings, net = self.settings, self.supernet
        operations = [*net.layers.parameters(), *net.norms.parameters()]
        groups = [
            {"params": operations, "lr": settings.lr_weight, "weight_decay": settings.weight_decay}
        ]
        if settings.prune:
            groups.append(
                {"params": list(net.weight_scores), "lr": settings.lr_score, "weight_decay": 0.0}
            )
        edges = [self.edge_score, self.threshold]
        kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
        return {
            "weight": torch.optim.Adam(groups, fused=True),
            "edge": kinds[settings.edge_optimizer](edges, lr=settings.lr_edge),
            "alpha": torch.optim.Adam([net.alpha], lr=settings.lr_alpha, betas=(0.5, 0.999)),
        }

    def operations(self) -> dict[str, Tensor]:
        """The parameters of layers and norms by name: what a net takes over."""
        return {
            k: v
            for k, v in self.supernet.state_dict().items()
            if k.startswith(("layers.", "norms."))
        }

    def weights(self) -> list[Tensor]:
        """W ⊙ M_W of every layer."""
        return self.supernet.masked_weights(
            self.settings.weight_form if self.settings.prune else None
        )

    def edge_mask(self) -> Tensor:
        """M_G [E], differentiable."""
        return edge_mask(self.edge_score, self.threshold, self.slot)

    def refresh(self) -> None:
        """A ⊙ M_G as W and α see it: fixed while they are stepped."""
        with torch.no_grad():
            self.masked = MaskedGraph.of(
                self.graph, self.edge_mask() if self.settings.sparsify else None
            )

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name, the random generator included."""
        named = {f"net.{k}": v for k, v in self.supernet.state_dict().items()}
        named |= {f"first.{k}": v for k, v in self.first.items()}
        named |= {
            "edge_score": self.edge_score.data,
            "threshold": self.threshold.data,
            "grad_std": self.grad_std,
        }
        if self.logits is not None:
            named["logits"] = self.logits
        for name, optimizer in self.optimizers.items():
            for index, slots in optimizer.state_dict()["state"].items():
                named |= {
                    f"optimizer.{name}.{index}.{k}": v for k, v in slots.items() if v is not None
                }
        named["rng"] = torch.get_rng_state()
        if self.graph.device.type == "cuda":
            named["rng_cuda"] = torch.cuda.get_rng_state(self.graph.device)
        return named

    def restore(self, tensors: dict[str, Tensor], history: list[Row]) -> None:
        """The inverse of `tensors`."""
        device = self.graph.device
        self.supernet.load_state_dict(
            {k[4:]: v for k, v in tensors.items() if k.startswith("net.")}
        )
        self.first = {k[6:]: v.to(device) for k, v in tensors.items() if k.startswith("first.")}
        with torch.no_grad():
            self.edge_score.copy_(tensors["edge_score"])
            self.threshold.copy_(tensors["threshold"])
        self.grad_std = tensors["grad_std"].to(device)
        self.logits = tensors["logits"].to(device) if "logits" in tensors else None
        for name, optimizer in self.optimizers.items():
            slots: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors.items():
                if key.startswith(f"optimizer.{name}."):
                    index, slot = key.split(".", 3)[2:]
                    slots.setdefault(int(index), {})[slot] = value
            optimizer.load_state_dict(
                {"state": slots, "param_groups": optimizer.state_dict()["param_groups"]}
            )
        torch.set_rng_state(tensors["rng"])
        if "rng_cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng_cuda"], device)
        self.history = list(history)
        self.refresh()


def step_weights(state: State) -> Row:
    """One Adam step of W and S_W on L_train (Alg. 2, line 2)."""
    settings, graph, net = state.settings, state.graph, state.supernet
    optimizer = state.optimizers["weight"]
    optimizer.zero_grad()
    weights = state.weights()
    paths: list[Path | None] = [None]
    for _ in range(settings.sampled_paths):
        paths.append(tuple(torch.randint(len(settings.ops), (settings.layers,)).tolist()))
    loss = torch.zeros((), device=graph.device)
    for path in paths:
        logits = net(graph.x, state.masked, weights, path=path, dropout=settings.dropout)
        loss = loss + F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
    train_loss = float(loss.detach())
    if settings.prune and settings.score_sparsity > 0:
        masks = torch.cat(
            [weight_mask(s, settings.weight_form).flatten() for s in net.weight_scores]
        )
        loss = loss + settings.score_sparsity * masks.mean()
    loss.backward()
    optimizer.step()
    return {"train_loss": train_loss / len(paths)}


def step_structure(state: State, weights: list[Tensor], products: Tensor | None) -> Row:
    """One step of S_G and γ (Algorithm 1)."""
    settings, graph, net = state.settings, state.graph, state.supernet
    dropout = settings.dropout if settings.structure_dropout else 0.0
    if state.logits is None:  # no α step yet: one forward without gradient
        with torch.no_grad():
            state.logits = net(graph.x, state.masked, weights, first_products=products)
    pseudo_label = curriculum.pseudo_labels(state.logits, graph.y, graph.train_mask)  # line 1
    node_weight = difficulty_weights(state, pseudo_label)  # line 2
    nodes = (
        graph.train_mask if settings.loss_nodes == "labelled" else torch.ones_like(graph.train_mask)
    )
    gradients, threshold_gradients = [], []
    for path in top_paths(net.alpha, settings.num_archs):  # lines 3-6
        mask = state.edge_mask()
        masked = MaskedGraph.of(graph, mask)
        logits = net(graph.x, masked, weights, path=path, dropout=dropout, first_products=products)
        loss = curriculum.structure_loss(
            logits, pseudo_label, node_weight, nodes, mask, settings.beta
        )
        by_score, by_threshold = torch.autograd.grad(loss, (state.edge_score, state.threshold))
        gradients.append(by_score)
        threshold_gradients.append(by_threshold)
    update, state.grad_std = curriculum.score_update(  # line 7
        torch.stack(gradients),
        settings.update_rule,
        settings.update_clamp,
        settings.update_eps,
        settings.unbiased_std,
    )
    state.edge_score.grad, state.threshold.grad = update, torch.stack(threshold_gradients).mean(0)
    state.optimizers["edge"].step()  # line 8
    state.refresh()
    return {
        "threshold": float(state.threshold.detach()),
        "clamp_share": float((update.abs() >= settings.update_clamp).float().mean()),
        "reached_share": float((state.grad_std > 0).float().mean()),
    }


def difficulty_weights(state: State, pseudo_label: Tensor) -> Tensor:
    """θ [N]; even weights without the curriculum."""
    settings, graph = state.settings, state.graph
    over = graph.train_mask if settings.softmax_nodes == "labelled" else None
    difficulty = torch.zeros(graph.num_edges, device=graph.device)
    if settings.curriculum:
        assert state.logits is not None
        grad_std = (
            curriculum.standardised(state.grad_std) if settings.standardise else state.grad_std
        )
        node_view = curriculum.node_view_difficulty(
            graph, state.logits, pseudo_label, settings.lambda1
        )
        difficulty = grad_std[state.slot] + settings.lambda2 * node_view
    return curriculum.node_weights(graph, difficulty, over)


def step_alpha(state: State, weights: list[Tensor], products: Tensor | None, metric: Metric) -> Row:
    """One Adam step of α on L_val, first order (Alg. 2, line 7); keeps z for the next structure
    step."""
    settings, graph, net = state.settings, state.graph, state.supernet
    dropout = settings.dropout if settings.structure_dropout else 0.0
    logits = net(graph.x, state.masked, weights, dropout=dropout, first_products=products)
    nodes = graph.val_mask if settings.alpha_nodes == "val" else graph.train_mask
    loss = F.cross_entropy(logits[nodes], graph.y[nodes])
    (net.alpha.grad,) = torch.autograd.grad(loss, (net.alpha,))
    state.optimizers["alpha"].step()
    state.logits = logits.detach()
    val_logits, val_y = state.logits[graph.val_mask], graph.y[graph.val_mask]
    value = score(metric, val_logits, val_y)
    val_loss = float(F.cross_entropy(val_logits, val_y))
    return {"val_loss": val_loss, "val_score": float("nan") if value is None else value}


@torch.no_grad()
def outlook(state: State) -> Row:
    """What the search would hand over if it ended now."""
    (path,) = top_paths(state.supernet.alpha, 1)
    row: Row = {"alpha_entropy": state.supernet.alpha_entropy()}
    row["architecture"] = " ‖ ".join(state.settings.ops[k] for k in path)
    if state.settings.prune:
        keep = kept_weights(state, path)
        row["weights_kept"] = sum(int(k.sum()) for k in keep) / sum(k.numel() for k in keep)
    if state.settings.sparsify:
        row["edges_kept"] = float(kept_edges(state).float().mean())
    return row


def kept_weights(state: State, path: Path) -> list[Tensor]:
    """Binarised M_W of one path, per layer."""
    settings, layers = state.settings, state.supernet.layers
    if not settings.prune:
        own = [layer.weight[:, layer.columns(k)] for layer, k in zip(layers, path, strict=True)]
        return [torch.ones_like(weight, dtype=torch.bool) for weight in own]
    scores = state.supernet.path_scores(path)
    if settings.weight_groups == "unit" and settings.weight_rule == "budget":
        return group_keep(scores, settings.weight_share)
    return weight_keep(scores, settings.weight_rule, settings.weight_share)


def kept_edges(state: State) -> Tensor:
    """Binarised M_G of every edge, [E] bool."""
    settings = state.settings
    if not settings.sparsify:
        return torch.ones(state.graph.num_edges, dtype=torch.bool, device=state.graph.device)
    mask = torch.sigmoid(state.edge_score - state.threshold)
    return edge_keep(mask, float(state.threshold), settings.edge_rule, settings.edge_share)[
        state.slot
    ]


@torch.no_grad()
def induce(state: State, path: Path | None = None) -> Found:
    """Binarise both masks and read off the most probable architecture, or `path` (Alg. 2, lines
    9-11)."""
    path = path or top_paths(state.supernet.alpha, 1)[0]
    masked = {f"layers.{l}.weight": w for l, w in enumerate(state.weights())}
    ones = torch.ones(state.graph.num_edges, device=state.graph.device)
    found = Found(
        settings=state.settings,
        architecture=_architecture(state.settings, tuple(state.settings.ops[k] for k in path)),
        weight_keep=kept_weights(state, path),
        edge_keep=kept_edges(state),
        edge_mask=state.edge_mask() if state.settings.sparsify else ones,
        first_weights=_net_weights(state, path, state.first),
        last_weights=_net_weights(state, path, state.operations() | masked),
        history=state.history,
        seconds=sum(float(row["seconds"]) for row in state.history),
    )
    whole_groups = state.settings.prune and state.settings.weight_groups == "unit"
    return (
        compact(found) if whole_groups else found
    )  # what the groups cut is not there when the net is retrained


def _net_weights(state: State, path: Path, source: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of one path out of the supernet's, under the names of `Net`."""
    named = {k: v.clone() for k, v in source.items() if k.startswith("norms.")}
    for l, (layer, k) in enumerate(zip(state.supernet.layers, path, strict=True)):
        named[f"layers.{l}.weight"] = source[f"layers.{l}.weight"][:, layer.columns(k)].clone()
        named[f"layers.{l}.bias"] = source[f"layers.{l}.bias"][k : k + 1].clone()
        if OPERATIONS[state.settings.ops[k]].attention:
            named[f"layers.{l}.attention"] = source[f"layers.{l}.attention"].clone()
    return named


def _architecture(settings: Gassip, ops: tuple[str, ...]) -> Architecture:
    inner = len(ops) - 1
    hidden, heads = (settings.hidden,) * inner, (settings.heads,) * inner
    return Architecture(ops=ops, hidden=hidden, heads=heads, batch_norm=settings.batch_norm)
