"""The methods by name. A method is a frozen dataclass of its settings with `solve`; one that
searches adds `search`.

Plans compose: DARTS+UGS is `Ugs().solve_from(Darts(...).search(graph, run), graph, run)`.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from gassip.baselines.algnn import Algnn
from gassip.baselines.appnp import Appnp
from gassip.baselines.arma import Arma
from gassip.baselines.cgp import Cgp
from gassip.baselines.correct_and_smooth import CorrectAndSmooth
from gassip.baselines.darts import Darts
from gassip.baselines.darts_dropedge import DartsDropedge
from gassip.baselines.darts_ugs import DartsUgs
from gassip.baselines.dropedge import DropEdge
from gassip.baselines.dspar import Dspar
from gassip.baselines.earlybird import EarlyBird
from gassip.baselines.exhaustive import Exhaustive
from gassip.baselines.gassip import GassipMethod
from gassip.baselines.gasso import Gasso
from gassip.baselines.gat import Gat
from gassip.baselines.gauss import Gauss
from gassip.baselines.gcn import Gcn
from gassip.baselines.gin import Gin
from gassip.baselines.glnn import Glnn
from gassip.baselines.gnnguard import GnnGuard
from gassip.baselines.graphnas import Graphnas
from gassip.baselines.hmnas import HmNas
from gassip.baselines.imp import Imp
from gassip.baselines.jaccard import GcnJaccard
from gassip.baselines.label_propagation import LabelPropagation
from gassip.baselines.magnitude import Magnitude
from gassip.baselines.mlp import Mlp
from gassip.baselines.neuralsparse import NeuralSparse
from gassip.baselines.ptdnet import PtdNet
from gassip.baselines.random_edges import RandomEdges
from gassip.baselines.random_mask import RandomMask
from gassip.baselines.random_search import RandomSearch
from gassip.baselines.rgcn import Rgcn
from gassip.baselines.sage import Sage
from gassip.baselines.sane import Sane
from gassip.baselines.sgc import Sgc
from gassip.baselines.small_gcn import SmallGcn
from gassip.baselines.ugs import Ugs
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.train.context import RunContext
from gassip.train.trainer import Found, Solution


@runtime_checkable
class Method(Protocol):
    """What every method offers."""

    def solve(self, graph: Graph, run: RunContext) -> Solution: ...


@runtime_checkable
class StartsFromPlan(Method, Protocol):
    """A method that can start from what a search found."""

    def solve_from(self, plan: Found, graph: Graph, run: RunContext) -> Solution: ...


@runtime_checkable
class Searcher(StartsFromPlan, Protocol):
    """A method whose search stands apart from its training, so that one search can be trained with
    many seeds."""

    def num_steps(self, graph: Graph) -> int:
        """How many events a search tells."""
        ...

    def search(self, graph: Graph, run: RunContext) -> Found: ...


@runtime_checkable
class Resumer(Searcher, Protocol):
    """A searcher whose killed search can go on."""

    def resume(self, folder: Path, graph: Graph, run: RunContext) -> Found:
        """Like `search`, from what a killed one left in the folder."""
        ...


@dataclass(frozen=True)
class Entry:
    """One line of the list: how to make the method for a graph, and what to say of it."""

    make: Callable[[Graph], Method]
    family: str
    summary: str
    reference: str


METHODS: dict[str, Entry] = {
    "gcn": Entry(
        lambda graph: Gcn(), "hand-made", "two graph convolutions", "Kipf and Welling, ICLR 2017"
    ),
    "gat": Entry(
        lambda graph: Gat.published(graph),
        "hand-made",
        "attention over neighbours, eight heads of eight",
        "Veličković et al., ICLR 2018",
    ),
    "arma": Entry(
        lambda graph: Arma(),
        "hand-made",
        "two ARMA filters: neighbours without the node, and the node",
        "Bianchi et al., TPAMI 2021",
    ),
    "sage": Entry(
        lambda graph: Sage(),
        "hand-made",
        "two mean aggregations, and the node",
        "Hamilton et al., NeurIPS 2017",
    ),
    "gin": Entry(
        lambda graph: Gin(), "hand-made", "sums of neighbours through MLPs", "Xu et al., ICLR 2019"
    ),
    "sgc": Entry(
        lambda graph: Sgc(),
        "hand-made",
        "one linear layer over features smoothed twice",
        "Wu et al., ICML 2019",
    ),
    "appnp": Entry(
        lambda graph: Appnp(),
        "hand-made",
        "an MLP, then ten steps of personalised PageRank",
        "Gasteiger et al., ICLR 2019",
    ),
    "mlp": Entry(
        lambda graph: Mlp(),
        "hand-made",
        "two dense layers, no graph",
        "Rumelhart et al., Nature 1986",
    ),
    "label-propagation": Entry(
        lambda graph: LabelPropagation(),
        "hand-made",
        "training labels spread over the graph; no net, no features",
        "Zhu and Ghahramani, 2002",
    ),
    "correct-and-smooth": Entry(
        lambda graph: CorrectAndSmooth(),
        "hand-made",
        "an MLP or another net, its errors on training nodes passed on to their neighbours",
        "Huang et al., ICLR 2021",
    ),
    "dropedge": Entry(
        lambda graph: DropEdge.published(graph),
        "sparsification",
        "a GCN on another random part of the edges each epoch",
        "Rong et al., ICLR 2020",
    ),
    "neuralsparse": Entry(
        lambda graph: NeuralSparse(),
        "sparsification",
        "a GCN on the k neighbours each node learns to hear",
        "Zheng et al., ICML 2020",
    ),
    "ptdnet": Entry(
        lambda graph: PtdNet(),
        "sparsification",
        "a GCN whose layers learn which edges to drop",
        "Luo et al., WSDM 2021",
    ),
    "dspar": Entry(
        lambda graph: Dspar(),
        "sparsification",
        "a GCN on edges drawn by degree",
        "Liu et al., TMLR 2023",
    ),
    "gcn-jaccard": Entry(
        lambda graph: GcnJaccard(),
        "defence",
        "a GCN without edges between unlike nodes",
        "Wu et al., IJCAI 2019",
    ),
    "rgcn": Entry(
        lambda graph: Rgcn(),
        "defence",
        "a GCN of Gaussians that hears uncertain nodes less",
        "Zhu et al., KDD 2019",
    ),
    "gnnguard": Entry(
        lambda graph: GnnGuard(),
        "defence",
        "a GCN that hears neighbours by likeness",
        "Zhang and Zitnik, NeurIPS 2020",
    ),
    "random-mask": Entry(
        lambda graph: RandomMask(),
        "control",
        "a GCN with half its weights removed at random from the start",
        "–",
    ),
    "random-edges": Entry(
        lambda graph: RandomEdges(),
        "control",
        "a GCN with a tenth of the edges removed at random",
        "–",
    ),
    "magnitude": Entry(
        lambda graph: Magnitude(),
        "control",
        "a GCN trained, its smallest weights removed, trained on",
        "Han et al., NeurIPS 2015",
    ),
    "small-gcn": Entry(
        lambda graph: SmallGcn(),
        "control",
        "a GCN with few hidden units",
        "Kipf and Welling, ICLR 2017",
    ),
    "darts": Entry(
        lambda graph: Darts.of(graph, prune=False, sparsify=False),
        "architecture search",
        "one supernet, weights and architecture by gradient in turn",
        "Liu et al., ICLR 2019",
    ),
    "graphnas": Entry(
        lambda graph: Graphnas(),
        "architecture search",
        "a recurrent controller rewarded by validation",
        "Gao et al., IJCAI 2020",
    ),
    "gasso": Entry(
        lambda graph: Gasso(),
        "architecture search",
        "a supernet that learns edge weights; the supernet itself is the result",
        "Qin et al., NeurIPS 2021",
    ),
    "gauss": Entry(
        lambda graph: Gauss.of(graph),
        "architecture search",
        "sampled architectures by importance, on a curriculum of nodes",
        "Guan et al., ICML 2022",
    ),
    "sane": Entry(
        lambda graph: Sane(),
        "architecture search",
        "node aggregators, skips and a layer aggregator by gradient",
        "Zhao et al., ICDE 2021",
    ),
    "random-search": Entry(
        lambda graph: RandomSearch.of(graph, prune=False, sparsify=False),
        "architecture search",
        "ten architectures at random, the best on validation",
        "Li and Talwalkar, UAI 2019",
    ),
    "exhaustive": Entry(
        lambda graph: Exhaustive.of(graph, prune=False, sparsify=False),
        "architecture search",
        "every architecture of the space, the best on validation",
        "the space of Xie et al., KDD 2024",
    ),
    "darts-dropedge": Entry(
        lambda graph: DartsDropedge.of(graph, prune=False, sparsify=False),
        "architecture search",
        "DARTS that sees other random edges in every epoch",
        "ablation in Xie et al., KDD 2024",
    ),
    "ugs": Entry(
        lambda graph: Ugs.published(graph),
        "lightweight",
        "weights and edges pruned together in rounds, each rewound to the start",
        "Chen et al., ICML 2021",
    ),
    "imp": Entry(
        lambda graph: Imp.published(graph),
        "lightweight",
        "weights pruned in rounds, each rewound to the start",
        "Chen et al., ICML 2021",
    ),
    "darts-ugs": Entry(
        lambda graph: DartsUgs.published(graph),
        "lightweight",
        "UGS on the architecture that DARTS finds",
        "baseline in Xie et al., KDD 2024",
    ),
    "cgp": Entry(
        lambda graph: Cgp(),
        "lightweight",
        "weights, edges and features pruned gradually in one training",
        "Liu et al., TNNLS 2023",
    ),
    "earlybird": Entry(
        lambda graph: EarlyBird(),
        "lightweight",
        "weights and edges pruned as soon as their masks stand still",
        "You et al., AAAI 2022",
    ),
    "algnn": Entry(
        lambda graph: Algnn(),
        "lightweight",
        "architectures evolved to be accurate and small",
        "Cai et al., PRICAI 2021",
    ),
    "hmnas": Entry(
        lambda graph: HmNas(),
        "lightweight",
        "a supernet thinned by masks on connections, operations and weights",
        "Yan et al., ICCV Workshops 2019",
    ),
    "glnn": Entry(
        lambda graph: Glnn(),
        "lightweight",
        "an MLP taught by a GNN; no graph at inference",
        "Zhang et al., ICLR 2022",
    ),
    "gassip": Entry(
        lambda graph: GassipMethod.of(graph),
        "ours",
        "architecture, weight mask and edge mask searched together",
        "Xie et al., KDD 2024",
    ),
    "gassip-best": Entry(
        lambda graph: GassipMethod.of(graph, "best"),
        "ours",
        "gassip whose best nets teach a small one, all chosen on validation",
        "METHOD.md",
    ),
    "gassip-no-prune": Entry(
        lambda graph: GassipMethod.of(graph, prune=False),
        "ours",
        "gassip without the weight mask",
        "ablation in Xie et al., KDD 2024",
    ),
    "gassip-no-sparsify": Entry(
        lambda graph: GassipMethod.of(graph, sparsify=False),
        "ours",
        "gassip without the edge mask",
        "ablation in Xie et al., KDD 2024",
    ),
    "gassip-no-curriculum": Entry(
        lambda graph: GassipMethod.of(graph, curriculum=False),
        "ours",
        "gassip with all nodes weighing the same",
        "ablation in Xie et al., KDD 2024",
    ),
}


def entry(name: str) -> Entry:
    """The entry of that name, or one line with the nearest."""
    if name not in METHODS:
        near = difflib.get_close_matches(name.lower(), METHODS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise GassipError(f"there is no method {name!r}; {hint}see `gassip methods`")
    return METHODS[name]


def plain_settings(method: Method) -> dict[str, Any]:
    """Every field of a method, as JSON has it: tuples are lists."""
    return {
        name: list(own) if isinstance(own, tuple) else own
        for name, own in asdict(method).items()  # type: ignore[call-overload]
    }


def changed(method: Method, given: Mapping[str, Any]) -> Method:
    """The method with some fields replaced; lists stand for tuples."""
    known = {f.name for f in fields(method)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise GassipError(f"{type(method).__name__} has no setting {name!r}; {hint}")
    values = {name: tuple(own) if isinstance(own, list) else own for name, own in given.items()}
    return replace(method, **values)  # type: ignore[type-var]


def parsed(method: Method, given: Mapping[str, str]) -> dict[str, Any]:
    """Texts such as `--set hidden=64` as values of the fields' own types."""
    types = get_type_hints(type(method))
    changed(method, {name: None for name in given if name not in types})
    return {name: _value(name, types[name], text) for name, text in given.items()}


def _value(name: str, kind: Any, text: str) -> Any:
    if get_origin(kind) in (Union, UnionType):
        if text.lower() == "none" and NoneType in get_args(kind):
            return None
        kind = next(own for own in get_args(kind) if own is not NoneType)
    if get_origin(kind) is tuple:
        return tuple(_value(name, get_args(kind)[0], part) for part in text.split(",") if part)
    if get_origin(kind) is Literal and text in get_args(kind):
        return text
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if kind in (int, float, str):
            return kind(text)
    except ValueError:
        pass
    wanted = (
        " or ".join(map(str, get_args(kind)))
        if get_origin(kind) is Literal
        else getattr(kind, "__name__", kind)
    )
    raise GassipError(f"{name} is {text!r}; it must be a {wanted}")
