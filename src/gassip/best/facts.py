"""Facts of a graph that the rules of `best` may know (best/rules.py); no test label is read."""

from gassip.best.rules import HOMOPHILY_EDGES, Facts
from gassip.graph.graph import Graph
from gassip.graph.similarity import homophily, is_bag
from gassip.operations import gcn_weights


def facts_of(graph: Graph) -> Facts:
    return Facts(
        nodes=graph.num_nodes,
        labelled=float(graph.train_mask.float().mean()),
        words=graph.has_sparse_features and is_bag(graph.x),
        sparse=graph.has_sparse_features,
        homophily=homophily(graph, fewest=int(HOMOPHILY_EDGES)),
        gcn_weights=gcn_weights(graph.num_features, graph.num_classes),
    )
