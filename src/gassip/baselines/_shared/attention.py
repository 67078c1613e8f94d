"""The kinds of attention that GraphNAS names, before the softmax; P = h W, per head.

    gat         LeakyReLU(t·P_i + s·P_j)
    sym-gat     e_ij + e_ji of gat
    cos         (t∘P_i)·(s∘P_j)
    linear      tanh(s·P_j)
    gene-linear v·tanh(t∘P_i + s∘P_j)

Gao et al., Graph Neural Architecture Search, IJCAI 2020; SANE takes four of them over.
Shapes: N nodes, E directed edges, H heads.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gassip.baselines._shared.extra_ops import coupled_logits, edge_dot
from gassip.nn.propagate import NEGATIVE_SLOPE, MaskedGraph

# s, t and v of the kinds that learn
VECTORS = {"gat": 2, "sym-gat": 2, "cos": 2, "linear": 1, "gene-linear": 3}


def attention_logits(
    kind: str, product: Tensor, vectors: Tensor, graph: MaskedGraph
) -> tuple[Tensor, Tensor]:
    """Attention before the softmax: of every edge [E, H] and of every node to itself [N, H]."""
    heads, width = vectors.shape[1:]
    apart = product.view(-1, heads, width)
    if kind in ("gat", "sym-gat"):
        sender, receiver = (apart * vectors[0]).sum(2), (apart * vectors[1]).sum(2)
        there = F.leaky_relu(graph.at_receiver(receiver) + graph.at_sender(sender), NEGATIVE_SLOPE)
        here = F.leaky_relu(receiver + sender, NEGATIVE_SLOPE)
        if kind == "gat":
            return there, here
        back = F.leaky_relu(graph.at_sender(receiver) + graph.at_receiver(sender), NEGATIVE_SLOPE)
        return there + back, 2 * here
    if kind == "linear":
        here = torch.tanh((apart * vectors[0]).sum(2))
        return graph.at_sender(here), here
    sent, heard = apart * vectors[0], apart * vectors[1]
    if kind == "cos":
        return edge_dot(graph.adjacency, heard, sent), (heard * sent).sum(2)
    there = coupled_logits(graph.adjacency, heard.flatten(1), sent.flatten(1), vectors[2], "tanh")
    return there, (torch.tanh(heard + sent) * vectors[2]).sum(2)
