"""The supernet: every operation in every layer, mixed by α (Sec. 3.1 and 4.2).

    ō_l(h) = Σ_o softmax(α_l)_o · o(h; W_o ⊙ M_W,o)
    P(a) = Π_l softmax(α_l)_{a_l}

Shapes: L layers, O operations, N nodes, C classes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gassip.graph.csr import Csr
from gassip.nn.dropout import drop, thinned
from gassip.nn.kernels import transform
from gassip.nn.net import Architecture, Layer, Layers
from gassip.nn.propagate import MaskedGraph
from gassip.paper.masks import weight_mask

Path = tuple[int, ...]  # the number of one operation per layer


class Supernet(nn.Module):
    """α [L, O], the layers, and a score S_W beside every weight matrix."""

    def __init__(
        self,
        features: int,
        classes: int,
        ops: tuple[str, ...],
        shape: Architecture,
        *,
        weight_gain: float,
        alpha_start: float,
        score_mean: float,
        score_std: float,
        weight_groups: str = "element",
    ) -> None:
        super().__init__()
        widths = shape.widths(features, classes)
        heads = (*shape.heads, 1)
        self.ops = ops
        self.layers = Layers(
            Layer(*width, ops, head) for width, head in zip(widths, heads, strict=True)
        )
        # batch statistics always: running ones of the mixture would not fit a single path
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width[0], track_running_stats=False)
            for width in widths[1:]
            if shape.batch_norm
        )
        for layer in self.layers:
            layer.reset(weight_gain)
        self.alpha = nn.Parameter(alpha_start * torch.randn(len(widths), len(ops)))
        self.weight_groups = weight_groups
        sizes = [layer.weight.shape for layer in self.layers]
        if (
            weight_groups == "unit"
        ):  # of features, then of the units of each hidden layer, apart for each operation
            sizes = [torch.Size([features]), *(layer.bias.shape for layer in self.layers)][:-1]
        self.weight_scores = nn.ParameterList(
            score_mean + score_std * torch.randn(size) for size in sizes
        )

    def masked_weights(self, form: str | None) -> list[Tensor]:
        """W ⊙ M_W of every layer; `form` None leaves W as it is."""
        if form is None:
            return [layer.weight for layer in self.layers]
        masks = [weight_mask(score, form) for score in self.weight_scores]
        if self.weight_groups == "element":
            return [layer.weight * mask for layer, mask in zip(self.layers, masks, strict=True)]
        weights: list[Tensor] = [layer.weight for layer in self.layers]
        weights[0] = weights[0] * masks[0].unsqueeze(1)
        for l, mask in enumerate(masks[1:]):
            weights[l] = weights[l] * self.layers[l].beside(mask)
        return weights

    @torch.no_grad()
    def path_scores(self, path: Path) -> list[Tensor]:
        """S_W of one path, per layer; of groups, the lower score of the two that a weight belongs
        to."""
        scores = [score.detach() for score in self.weight_scores]
        if self.weight_groups == "element":
            return [
                score[:, layer.columns(k)]
                for layer, score, k in zip(self.layers, scores, path, strict=True)
            ]
        rows = [scores[0], *(score[k] for score, k in zip(scores[1:], path, strict=False))]
        lowest = []
        for l, (layer, k) in enumerate(zip(self.layers, path, strict=True)):
            columns = layer.columns(k).stop - layer.columns(k).start
            least = rows[l].unsqueeze(1).expand(-1, columns)
            if l + 1 < len(rows):  # the classes have no score
                least = torch.minimum(least, rows[l + 1].repeat(columns // layer.out_width))
            lowest.append(least.contiguous())
        return lowest

    def forward(
        self,
        x: Tensor | Csr,
        graph: MaskedGraph,
        weights: list[Tensor],
        *,
        path: Path | None = None,
        dropout: float = 0.0,
        first_products: Tensor | None = None,
    ) -> Tensor:
        """Class scores [N, C] of the mixture, or of one path; `first_products` is X·W of layer 1
        where it is known."""
        h: Tensor | Csr = x
        for l, layer in enumerate(self.layers):
            if l > 0:
                h = F.relu(h)  # type: ignore[arg-type]
                h = self.norms[l - 1](h) if self.norms else h
            columns = slice(None) if path is None else layer.columns(path[l])
            if l == 0 and first_products is not None:
                products = first_products[:, columns]
            else:
                products = transform(dropped(h, dropout), weights[l][:, columns])
            parts = layer.apart(products)
            h = (
                self.mix(l, parts, graph)
                if path is None
                else layer.propagate(path[l], parts, graph)
            )
        assert isinstance(h, Tensor)
        return h

    def mix(self, l: int, products: tuple[Tensor, ...], graph: MaskedGraph) -> Tensor:
        """Σ_o softmax(α_l)_o · o(h)."""
        layer, share = self.layers[l], torch.softmax(self.alpha[l], 0)
        bounds = zip(layer.first, layer.first[1:], strict=False)
        parts = [layer.propagate(k, products[a:b], graph) for k, (a, b) in enumerate(bounds)]
        return (share @ torch.stack(parts).flatten(1)).view_as(parts[0])

    def alpha_entropy(self) -> float:
        """Mean over layers of the entropy of softmax(α), in nats."""
        log_share = torch.log_softmax(self.alpha.detach(), 1)
        return float(-(log_share.exp() * log_share).sum(1).mean())


def dropped(h: Tensor | Csr, p: float) -> Tensor | Csr:
    """Dropout; of a sparse X only what is left is stored, since all operations read it at once."""
    if p > 0 and isinstance(h, Csr) and h.col.device.type == "cpu":
        return thinned(h, p)
    return drop(h, p)


def top_paths(alpha: Tensor, count: int) -> list[Path]:
    """The `count` most probable architectures, exactly, best first; all of them where there are
    fewer.

    A best combination is made of best partial ones, so keeping `count` partial paths per layer
    loses none.
    """
    best: list[tuple[float, Path]] = [(0.0, ())]
    for layer in torch.log_softmax(alpha.detach().double(), 1).tolist():
        longer = [
            (total + value, (*path, k)) for total, path in best for k, value in enumerate(layer)
        ]
        best = sorted(longer, key=lambda item: (-item[0], item[1]))[:count]
    return [path for _, path in best]
