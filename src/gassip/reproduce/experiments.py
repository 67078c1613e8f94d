"""The paper's tables and figures by name: an entry has the methods (rows), the graphs (columns),
what is shown of their runs, and the notes that belong under it.

A cell is a row on a column: the runs of one method, with these settings, on one graph. Below the
paper's rows stand controls and other methods, which the paper does not have. Nothing here needs
torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal

from gassip.errors import GassipError
from gassip.reproduce.printed import PRINTED, Table

Show = Literal[
    "accuracy",  # on the test nodes, per cent
    "search",  # seconds
    "retrain",  # seconds
    "sizes",  # accuracy, weights and edges
    "architectures",
    "statistics",  # of the graphs
    "overlap",  # of the edges that trained masks remove
]
Draw = Literal["dots", "curves", "scatter", "overlap"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A method with settings, as `gassip run METHOD --set NAME=VALUE` takes them."""

    label: str
    method: str
    settings: Mapping[str, str] = field(default_factory=dict)
    beside: Literal["", "control", "also"] = ""  # not in the paper
    control_of: str = ""  # the row whose searches it shares
    at: tuple[str, float] | None = None  # curve and place of a point, where rows are drawn so
    whole: bool = False  # training is a part of the search


@dataclass(frozen=True, kw_only=True)
class Column:
    """A graph and what is done to it; `label` is the paper's."""

    label: str
    dataset: str
    noise: int = 0
    attack: str | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure."""

    title: str
    show: Show
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    draw: Draw | None = None
    anywhere: bool = True  # other graphs than the paper's can stand in
    notes: tuple[str, ...] = ()

    def on(self, datasets: Sequence[str] | None) -> "Experiment":
        """The same on these graphs alone; without any, on those of the paper."""
        if datasets is None:
            return self
        kept = [column for column in self.columns if column.dataset in datasets]
        there = {column.dataset for column in kept}
        others = [name for name in datasets if name not in there] if self.anywhere else []
        return replace(self, columns=(*kept, *(graph(name) for name in others)))


LABELS = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "physics": "Physics",
    "ogbn-arxiv": "Ogbn-Arxiv",
}


def graph(name: str) -> Column:
    return Column(label=LABELS.get(name, name), dataset=name)


def graphs(*names: str) -> tuple[Column, ...]:
    return tuple(graph(name) for name in names)


def row(label: str, method: str, **settings: object) -> Row:
    return Row(label=label, method=method, settings={k: str(v) for k, v in settings.items()})


def control(label: str, method: str, **settings: object) -> Row:
    return replace(row(label, method, **settings), beside="control")


def also(label: str, method: str) -> Row:
    return replace(row(label, method), beside="also")


FIVE = graphs(*LABELS)
GCN, GAT, ARMA = row("GCN", "gcn"), row("GAT", "gat"), row("ARMA", "arma")
DROPEDGE = row("DropEdge", "dropedge")
NEURALSPARSE, PTDNET = row("NeuralSparse", "neuralsparse"), row("PTDNet", "ptdnet")
DARTS, GRAPHNAS = row("DARTS", "darts"), row("GraphNAS", "graphnas")
GASSO, UGS, GASSIP = row("GASSO", "gasso"), row("UGS", "ugs"), row("GASSIP", "gassip")
ALL_EDGES, RANDOM_EDGES = (
    replace(control(f"GASSIP's nets, {kind} edges", f"gassip-{kind}-edges"), control_of="GASSIP")
    for kind in ("all", "random")
)
HALF_GCN = control("GCN, half of the weights at random", "random-mask")
CUT_GCN = control("GCN, a tenth of the edges at random", "random-edges")
SMALL_GCN = control("GCN, 16 hidden units", "small-gcn")
BEST = also("gassip's preset best", "gassip-best")

TIMES = "Times are of the machines below, under what load they had: compare within a column."
K_AND_LAMBDA = "The paper read K and λ off test accuracy."


def curve(name: str, letter: str, values: Sequence[float]) -> tuple[Row, ...]:
    """GASSIP with one setting at each value."""
    made = [row(f"{letter} = {value:g}", "gassip", **{name: value}) for value in values]
    return tuple(replace(row, at=(letter, v)) for row, v in zip(made, values, strict=True))


EXPERIMENTS: dict[str, Experiment] = {
    "datasets": Experiment(title="Dataset statistics", show="statistics", columns=FIVE),
    "main": Experiment(
        title="Node classification",
        show="accuracy",
        columns=FIVE,
        rows=(
            *(GCN, GAT, ARMA, DROPEDGE, NEURALSPARSE, PTDNET, DARTS, GRAPHNAS, GASSO),
            *(row("GAUSS", "gauss"), GASSIP),
            *(ALL_EDGES, RANDOM_EDGES, HALF_GCN, SMALL_GCN),
            control("random search", "random-search"),
            BEST,
        ),
        notes=(
            "Printed: DropEdge and PTDNet have equal cells on Cora, CiteSeer and PubMed, which "
            "two methods cannot have by chance; GASSIP is called best on all five graphs, but "
            "GAUSS is ahead on Ogbn-Arxiv.",
        ),
    ),
    "lightweight": Experiment(
        title="Comparison with lightweight nets",
        show="sizes",
        columns=graphs("cora", "citeseer"),
        rows=(
            UGS,
            row("CGP", "cgp"),
            row("Early Bird", "earlybird"),
            GASSIP,
            *(HALF_GCN, CUT_GCN, control("GCN, smallest weights removed", "magnitude"), SMALL_GCN),
            also("GLNN, an MLP taught by a GCN", "glnn"),
            BEST,
        ),
    ),
    "scatter": Experiment(
        title="Accuracy against parameters",
        show="sizes",
        draw="scatter",
        columns=graphs("cora", "citeseer", "physics"),
        rows=(
            *(GCN, GAT, ARMA, replace(DROPEDGE, label="DropEdge*"), DARTS, GRAPHNAS),
            *(row("IMP", "imp"), replace(UGS, label="UGS*"), replace(GASSIP, label="GASSIP*")),
            *(control(f"GCN-{n}", "small-gcn", hidden=n) for n in (4, 8, 16, 32)),
            *(replace(HALF_GCN, label="GCN, random half"), BEST),
        ),
        notes=(
            "* also removes edges. The paper prints a drawing without figures: GASSIP keeps half "
            "of a GCN's weights and 93 to 83 % of the edges on Cora.",
        ),
    ),
    "ablation": Experiment(
        title="Ablation",
        show="accuracy",
        draw="dots",
        columns=graphs("cora", "physics"),
        rows=(
            GASSIP,
            row("w/o op prn", "gassip-no-prune"),
            row("w/o sp", "gassip-no-sparsify"),
            row("w/o cur", "gassip-no-curriculum"),
            DARTS,
            row("DARTS with DropEdge", "darts-dropedge"),
            *(ALL_EDGES, RANDOM_EDGES),
        ),
        notes=("The paper prints bars; figures are those of its text.",),
    ),
    "architectures": Experiment(
        title="Searched architectures", show="architectures", columns=FIVE, rows=(GASSIP,)
    ),
    "noisy-edges": Experiment(
        title="Noisy edges",
        show="accuracy",
        columns=(
            Column(label="1k", dataset="cora", noise=1000),
            Column(label="5k", dataset="cora", noise=5000),
        ),
        rows=(
            *(GCN, GAT, DROPEDGE, PTDNET, NEURALSPARSE, GRAPHNAS, GASSO, DARTS, UGS, GASSIP),
            *(ALL_EDGES, RANDOM_EDGES, control("MLP, no graph", "mlp"), BEST),
        ),
        anywhere=False,
        notes=("Cora with random undirected edges, drawn once.",),
    ),
    "mettack": Experiment(
        title="Poisoned graphs (Mettack)",
        show="accuracy",
        columns=(
            Column(label="Cora, 5 %", dataset="cora", attack="mettack-0.05"),
            Column(label="Cora, 25 %", dataset="cora", attack="mettack-0.25"),
            Column(label="CiteSeer, 5 %", dataset="citeseer", attack="mettack-0.05"),
            Column(label="CiteSeer, 25 %", dataset="citeseer", attack="mettack-0.25"),
        ),
        rows=(
            *(GCN, GAT, ARMA, DROPEDGE),
            *(row("GCN Jaccard", "gcn-jaccard"), row("RGCN", "rgcn"), GRAPHNAS, GASSO, DARTS),
            GASSIP,
            *(ALL_EDGES, also("GNNGuard", "gnnguard"), control("MLP, no graph", "mlp"), BEST),
        ),
        anywhere=False,
        notes=(
            "The paper does not say how many edges are flipped. Columns are at 5 % and at 25 %; "
            "what it prints stands beside 5 %, though its GCN lies between the two.",
        ),
    ),
    "search-time": Experiment(
        title="Seconds of the search",
        show="search",
        columns=graphs("cora"),
        rows=(
            DARTS,
            replace(row("DARTS+UGS", "darts-ugs"), whole=True),
            replace(GASSO, whole=True),
            *(GRAPHNAS, GASSIP, BEST),
        ),
        notes=(
            "Printed in minutes, without a graph: 0.55, 15.79, 0.62, 223.80, 0.98. GraphNAS "
            "trains 50 children here, 1,000 as published. All of DARTS+UGS and GASSO counts.",
            TIMES,
        ),
    ),
    "retrain-time": Experiment(
        title="Seconds of one (re)training",
        show="retrain",
        columns=graphs("cora", "citeseer", "physics"),
        rows=(GCN, GAT, ARMA, DROPEDGE, DARTS, GRAPHNAS, GASSIP, SMALL_GCN, BEST),
        notes=(TIMES,),
    ),
    "archs-k": Experiment(
        title="Sensitivity to K, the sampled architectures",
        show="accuracy",
        columns=graphs("cora", "citeseer", "physics"),
        rows=curve("num_archs", "K", (1, 2, 4, 8)),
        notes=("Printed: K = 2 on CiteSeer is 71.41 in the main table.", K_AND_LAMBDA),
    ),
    "lambda": Experiment(
        title="Sensitivity to λ1 and λ2",
        show="accuracy",
        draw="curves",
        columns=graphs("cora"),
        rows=(
            *curve("lambda1", "λ1", (0, 0.5, 1, 2)),
            *curve("lambda2", "λ2", (0, 0.5, 1, 2)),
        ),
        notes=("The paper prints curves without figures, the other λ at 1.", K_AND_LAMBDA),
    ),
    "overlap": Experiment(
        title="Overlap of the edges that GCN, GAT and GIN remove",
        show="overlap",
        draw="overlap",
        columns=graphs("cora", "citeseer"),
        notes=(
            "Control: the same net with another seed. Nets differ in their view of edges only as "
            "far as their overlap lies below that of a net with itself.",
        ),
    ),
}


def chosen(names: Sequence[str]) -> dict[str, Experiment]:
    """The experiments of these names in the paper's order; all without any."""
    for name in names:
        known("experiment", name, EXPERIMENTS)
    return {name: EXPERIMENTS[name] for name in EXPERIMENTS if not names or name in names}


def known(kind: str, name: str, names: Mapping[str, object]) -> None:
    """Refuse a name that there is not, with the nearest."""
    if name not in names:
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise GassipError(f"there is no {kind} {name!r}; {hint}")


def printed(name: str) -> Table:
    return PRINTED.get(name, {})
