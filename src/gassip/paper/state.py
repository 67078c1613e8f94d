"""Everything that moves during a search: the supernet, S_G and γ, their optimisers, the history."""

import torch
from torch import Tensor, nn

from gassip.graph.graph import Graph
from gassip.nn.net import Architecture
from gassip.nn.propagate import MaskedGraph
from gassip.paper.masks import edge_mask
from gassip.paper.optimizers import Adam, Group, Optimizer, Sgd, Slots
from gassip.paper.supernet import Supernet
from gassip.settings.search import Search
from gassip.train.plan import Row


def architecture_of(settings: Search, ops: tuple[str, ...]) -> Architecture:
    """These operations with the widths and heads of the settings."""
    inner = len(ops) - 1
    hidden, heads = (settings.hidden,) * inner, (settings.heads,) * inner
    return Architecture(ops=ops, hidden=hidden, heads=heads, batch_norm=settings.batch_norm)


class State:
    """Everything that moves during a search."""

    def __init__(self, graph: Graph, settings: Search) -> None:
        self.graph, self.settings = graph, settings
        shape = architecture_of(settings, settings.ops[:1] * settings.layers)
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
        self.near: Tensor | None = None  # an order of the nodes, of a search in batches
        self.optimizers = self._optimizers()
        self.refresh()

    def _optimizers(self) -> dict[str, Optimizer]:
        settings, net = self.settings, self.supernet
        operations = [*net.layers.parameters(), *net.norms.parameters()]
        groups = [Group(operations, settings.lr_weight, settings.weight_decay)]
        if settings.prune:
            groups.append(Group(list(net.weight_scores), settings.lr_score))
        edges = [self.edge_score, self.threshold]
        edge: Optimizer = Sgd(edges, settings.lr_edge)
        if settings.edge_optimizer == "adam":
            edge = Adam([Group(edges, settings.lr_edge)], fused=False)
        alpha = Adam([Group([net.alpha], settings.lr_alpha)], betas=(0.5, 0.999), fused=False)
        return {"weight": Adam(groups, fused=True), "edge": edge, "alpha": alpha}

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
            for index, slots in optimizer.slots().items():
                named |= {f"optimizer.{name}.{index}.{k}": v for k, v in slots.items()}
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
            slots: Slots = {}
            for key, value in tensors.items():
                if key.startswith(f"optimizer.{name}."):
                    index, slot = key.split(".", 3)[2:]
                    slots.setdefault(int(index), {})[slot] = value
            optimizer.restore(slots)
        torch.set_rng_state(tensors["rng"])
        if "rng_cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng_cuda"], device)
        self.history = list(history)
        self.refresh()
