"""A net as PyG's explainers expect it: masks of edges are found by a message-passing module.

    z = net(x, edge_index, σ(mask) · edge_weight)

An edge of weight 0 is no edge, so a mask over edges is exactly a weight.
"""

from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from gassip.nn.net import Model


class _Weights(MessagePassing):
    """The weights of edges, under the mask that an explainer has set."""

    def forward(self, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor | None:
        mask: Tensor | None = self._edge_mask if self.explain else None
        if mask is None:
            return edge_weight
        share = mask.sigmoid() if self._apply_sigmoid else mask
        return share if edge_weight is None else share * edge_weight


class PygNet(nn.Module):
    """`model(x, edge_index, edge_weight=None)` -> logits [N, C], for torch_geometric.explain."""

    def __init__(self, net: Model) -> None:
        super().__init__()
        self.net = net
        self.weights = _Weights()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = self.net(x, edge_index, self.weights(edge_index, edge_weight))
        return out


def to_pyg(net: Model) -> PygNet:
    """The same weights in a module on which PyG's explainers work."""
    return PygNet(net).eval()
