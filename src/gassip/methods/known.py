"""The methods by name. A method is a frozen dataclass of its settings with `solve`; what more it
can do, it has a method for: `solve_from`, `search`, `resume`.

Plans compose: DARTS+UGS is `Ugs().solve_from(Darts(...).search(graph, run), graph, run)`.
A method's module, and with it torch, is imported when the method is made.
"""

import difflib
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gassip.errors import GassipError
from gassip.methods.protocols import Method, MethodClass

if TYPE_CHECKING:
    from gassip.graph.graph import Graph


@dataclass(frozen=True)
class Entry:
    """One method of the list: where its class is, what to say of it, how it is made."""

    place: str  # module:class, under gassip.baselines
    family: str
    summary: str
    reference: str
    options: dict[str, Any] = field(default_factory=dict)  # of the class's `for_graph`
    searches_as: str | None = None  # the method whose search this is; `options` are then its own

    def load(self) -> MethodClass:
        module, _, name = self.place.partition(":")
        kind: MethodClass = vars(import_module(f"gassip.baselines.{module}"))[name]
        return kind

    def make(self, graph: "Graph") -> Method:
        """The method with its settings for this graph."""
        return self.load().for_graph(graph, **self.options)


HAND_MADE, SPARSIFIER, DEFENCE, CONTROL = "hand-made", "sparsification", "defence", "control"
SEARCH, LIGHT, OURS = "architecture search", "lightweight", "ours"
NO_MASKS = {"prune": False, "sparsify": False}

METHODS: dict[str, Entry] = {
    "gcn": Entry("gcn:Gcn", HAND_MADE, "two graph convolutions", "Kipf and Welling, ICLR 2017"),
    "gat": Entry(
        "gat:Gat",
        HAND_MADE,
        "attention over neighbours, eight heads of eight",
        "Veličković et al., ICLR 2018",
    ),
    "arma": Entry(
        "arma:Arma",
        HAND_MADE,
        "two ARMA filters: neighbours without the node, and the node",
        "Bianchi et al., TPAMI 2021",
    ),
    "sage": Entry(
        "sage:Sage",
        HAND_MADE,
        "two mean aggregations, and the node",
        "Hamilton et al., NeurIPS 2017",
    ),
    "gin": Entry("gin:Gin", HAND_MADE, "sums of neighbours through MLPs", "Xu et al., ICLR 2019"),
    "sgc": Entry(
        "sgc:Sgc",
        HAND_MADE,
        "one linear layer over features smoothed twice",
        "Wu et al., ICML 2019",
    ),
    "appnp": Entry(
        "appnp:Appnp",
        HAND_MADE,
        "an MLP, then ten steps of personalised PageRank",
        "Gasteiger et al., ICLR 2019",
    ),
    "mlp": Entry(
        "mlp:Mlp", HAND_MADE, "two dense layers, no graph", "Rumelhart et al., Nature 1986"
    ),
    "label-propagation": Entry(
        "label_propagation:LabelPropagation",
        HAND_MADE,
        "training labels spread over the graph; no net, no features",
        "Zhu and Ghahramani, 2002",
    ),
    "correct-and-smooth": Entry(
        "correct_and_smooth:CorrectAndSmooth",
        HAND_MADE,
        "an MLP or another net, its errors on training nodes passed on to their neighbours",
        "Huang et al., ICLR 2021",
    ),
    "dropedge": Entry(
        "dropedge:DropEdge",
        SPARSIFIER,
        "a GCN on another random part of the edges each epoch",
        "Rong et al., ICLR 2020",
    ),
    "neuralsparse": Entry(
        "neuralsparse:NeuralSparse",
        SPARSIFIER,
        "a GCN on the k neighbours each node learns to hear",
        "Zheng et al., ICML 2020",
    ),
    "ptdnet": Entry(
        "ptdnet:PtdNet",
        SPARSIFIER,
        "a GCN whose layers learn which edges to drop",
        "Luo et al., WSDM 2021",
    ),
    "dspar": Entry(
        "dspar:Dspar",
        SPARSIFIER,
        "a GCN on edges drawn by degree, reweighted",
        "Liu et al., TMLR 2023",
    ),
    "gcn-jaccard": Entry(
        "jaccard:GcnJaccard",
        DEFENCE,
        "a GCN without edges between unlike nodes",
        "Wu et al., IJCAI 2019",
    ),
    "rgcn": Entry(
        "rgcn:Rgcn",
        DEFENCE,
        "a GCN of Gaussians that hears uncertain nodes less",
        "Zhu et al., KDD 2019",
    ),
    "gnnguard": Entry(
        "gnnguard:GnnGuard",
        DEFENCE,
        "a GCN that hears neighbours by likeness",
        "Zhang and Zitnik, NeurIPS 2020",
    ),
    "random-mask": Entry(
        "random_mask:RandomMask",
        CONTROL,
        "a GCN with half its weights removed at random from the start",
        "–",
    ),
    "random-edges": Entry(
        "random_edges:RandomEdges",
        CONTROL,
        "a GCN with a tenth of the edges removed at random",
        "–",
    ),
    "magnitude": Entry(
        "magnitude:Magnitude",
        CONTROL,
        "a GCN trained, its smallest weights removed, trained on",
        "Han et al., NeurIPS 2015",
    ),
    "small-gcn": Entry(
        "small_gcn:SmallGcn", CONTROL, "a GCN with few hidden units", "Kipf and Welling, ICLR 2017"
    ),
    "darts": Entry(
        "darts:Darts",
        SEARCH,
        "one supernet, weights and architecture by gradient in turn",
        "Liu et al., ICLR 2019",
        NO_MASKS,
    ),
    "graphnas": Entry(
        "graphnas:Graphnas",
        SEARCH,
        "a recurrent controller rewarded by validation; 50 children (published 1,000)",
        "Gao et al., IJCAI 2020",
    ),
    "gasso": Entry(
        "gasso:Gasso",
        SEARCH,
        "a supernet that learns edge weights; the supernet itself is the result",
        "Qin et al., NeurIPS 2021",
    ),
    "gauss": Entry(
        "gauss:Gauss",
        SEARCH,
        "sampled architectures by importance, on a curriculum of nodes",
        "Guan et al., ICML 2022",
    ),
    "sane": Entry(
        "sane:Sane",
        SEARCH,
        "node aggregators, skips and a layer aggregator by gradient",
        "Zhao et al., ICDE 2021",
    ),
    "autoattend": Entry(
        "autoattend:AutoAttend",
        SEARCH,
        "what attention compares and passes on, evolved in one supernet; reduced",
        "Guan et al., ICML 2021",
    ),
    "random-search": Entry(
        "random_search:RandomSearch",
        SEARCH,
        "ten architectures at random, the best on validation",
        "Li and Talwalkar, UAI 2019",
        NO_MASKS,
    ),
    "exhaustive": Entry(
        "exhaustive:Exhaustive",
        SEARCH,
        "every architecture of the space, the best on validation",
        "the space of Xie et al., KDD 2024",
        NO_MASKS,
    ),
    "darts-dropedge": Entry(
        "darts_dropedge:DartsDropedge",
        SEARCH,
        "DARTS that sees other random edges in every epoch",
        "ablation in Xie et al., KDD 2024",
        NO_MASKS,
    ),
    "ugs": Entry(
        "ugs:Ugs",
        LIGHT,
        "weights and edges pruned together in rounds, each rewound to the start",
        "Chen et al., ICML 2021",
    ),
    "imp": Entry(
        "imp:Imp",
        LIGHT,
        "the smallest weights pruned in rounds, each rewound to the start",
        "Frankle and Carbin, ICLR 2019",
    ),
    "darts-ugs": Entry(
        "darts_ugs:DartsUgs",
        LIGHT,
        "UGS on the architecture that DARTS finds",
        "baseline in Xie et al., KDD 2024",
    ),
    "cgp": Entry(
        "cgp:Cgp",
        LIGHT,
        "weights, edges and features pruned gradually in one training",
        "Liu et al., TNNLS 2023",
    ),
    "earlybird": Entry(
        "earlybird:EarlyBird",
        LIGHT,
        "weights and edges pruned as soon as their masks stand still",
        "You et al., AAAI 2022",
    ),
    "algnn": Entry(
        "algnn:Algnn",
        LIGHT,
        "architectures evolved to be accurate and small",
        "Cai et al., PRICAI 2021",
    ),
    "hmnas": Entry(
        "hmnas:HmNas",
        LIGHT,
        "a supernet thinned by masks on connections, operations and weights",
        "Yan et al., ICCV Workshops 2019",
    ),
    "glnn": Entry(
        "glnn:Glnn",
        LIGHT,
        "an MLP taught by the tuned GCN; no graph at inference",
        "Zhang et al., ICLR 2022",
    ),
    "gassip": Entry(
        "gassip:GassipMethod",
        OURS,
        "architecture, weight mask and edge mask searched together",
        "Xie et al., KDD 2024",
        {"preset_name": "paper"},
    ),
    "gassip-literal": Entry(
        "gassip:GassipMethod",
        OURS,
        "gassip by the formulas as printed",
        "Xie et al., KDD 2024",
        {"preset_name": "literal"},
    ),
    "gassip-all-edges": Entry(
        "gassip_control:GassipControl",
        CONTROL,
        "what gassip found, trained on all edges",
        "–",
        {"edges": "all"},
        searches_as="gassip",
    ),
    "gassip-random-edges": Entry(
        "gassip_control:GassipControl",
        CONTROL,
        "what gassip found, trained on as many edges drawn at random",
        "–",
        {"edges": "random"},
        searches_as="gassip",
    ),
    "gassip-best": Entry(
        "gassip:GassipBest",
        OURS,
        "gassip whose best nets teach a small one, all chosen on validation",
        "METHOD.md",
        {"preset_name": "best", "for": "own"},  # a record is of one graph
    ),
    "gassip-best-unfitted": Entry(
        "gassip:GassipBest",
        CONTROL,
        "gassip-best without the numbers that are fitted to validation labels",
        "METHOD.md",
        {"preset_name": "best", "calibrate": False, "label_propagation": False},
    ),
    "fitted": Entry(
        "fitted:Fitted",
        CONTROL,
        "the best of GCN, SAGE, MLP and APPNP, with the numbers that gassip-best fits",
        "–",
    ),
    "gassip-no-prune": Entry(
        "gassip:GassipMethod",
        OURS,
        "gassip without the weight mask",
        "ablation in Xie et al., KDD 2024",
        {"preset_name": "paper", "prune": False},
    ),
    "gassip-no-sparsify": Entry(
        "gassip:GassipMethod",
        OURS,
        "gassip without the edge mask",
        "ablation in Xie et al., KDD 2024",
        {"preset_name": "paper", "sparsify": False},
    ),
    "gassip-no-curriculum": Entry(
        "gassip:GassipMethod",
        OURS,
        "gassip with all nodes weighing the same",
        "ablation in Xie et al., KDD 2024",
        {"preset_name": "paper", "curriculum": False},
    ),
}


def entry(name: str) -> Entry:
    """The entry of that name, or one line with the nearest."""
    if name not in METHODS:
        near = difflib.get_close_matches(name.lower(), METHODS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise GassipError(f"there is no method {name!r}; {hint}see `gassip methods`")
    return METHODS[name]
