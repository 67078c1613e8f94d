"""Facts of a graph that the rules of `best` may know (best/rules.py); no test label is read."""

from gassip.best.rules import Facts
from gassip.graph.graph import Graph
from gassip.graph.similarity import is_bag
from gassip.nn.net import dense_of
from gassip.operations import gcn_weights


def facts_of(graph: Graph) -> Facts:
    return Facts(
        nodes=graph.num_nodes,
        labelled=float(graph.train_mask.float().mean()),
        words=graph.has_sparse_features and is_bag(graph.x),
        sparse=graph.has_sparse_features,
        features=graph.num_features,
        largest=0.0 if graph.has_sparse_features else float(dense_of(graph.x).abs().max()),
        gcn_weights=gcn_weights(graph.num_features, graph.num_classes),
    )
