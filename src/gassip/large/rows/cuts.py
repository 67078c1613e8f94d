"""Edges cut on rows: the sparsest cut that does not validate worse, its hops computed anew.

Rankings compete at the largest share; then shares fall until the student validates worse beyond
chance. A random cut of the size taken, or else first tried, is in the decisions. Hops of cuts that
are not taken go.

Shapes: N nodes, C classes.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from gassip.best.decisions import SCORE
from gassip.best.rules import SCORE_SIGMAS
from gassip.deploy.row_runs import hops_name
from gassip.large.edge_cut import NUMBERS, EdgeNumbers, edge_scores, kept_edges, write_cut
from gassip.large.rows.edge_mask import FittedMask, fit_edge_mask
from gassip.large.rows.job import Job, prepared
from gassip.large.rows.scores import model_of
from gassip.large.rows.search import Found, train_student, with_labels
from gassip.large.rows.training import Trained
from gassip.large.rows.trials import Trials
from gassip.nn.size import packed
from gassip.train.plan import Decision, Row

ALL = "all edges"


@dataclass(frozen=True, eq=False)
class Cut:
    """The student on fewer edges."""

    ranking: str
    share: float
    name: str
    trials: Trials
    trained: Trained


class Cutter:
    """Cuts of one graph, and the student trained on each."""

    def __init__(self, job: Job, trials: Trials, found: Found) -> None:
        self.job, self.trials, self.found = job, trials, found
        logits = model_of(trials, found.trained.net, found.student.label_weight).scores()
        probs = torch.softmax(torch.from_numpy(logits), 1).numpy()
        graph = trials.hops.graph
        self.known = EdgeNumbers(np.diff(trials.edges.indptr), graph.array("x"), probs, trials.seed)
        self.mask: FittedMask | None = None
        self.digest = hashlib.sha256(packed(found.trained.net)).hexdigest()[:8]

    def rank(self, ranking: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        if ranking == "curriculum":
            assert self.mask is not None
            return partial(_carried, self.mask, self.known)
        known = self.known
        return {
            "support": known.support,
            "agreement": known.agreement,
            "inverse-degree": known.inverse_degree,
            "similarity": known.similarity,
            "random": known.random,
        }[ranking]

    def cut(self, ranking: str, share: float) -> Cut:
        """Hops on the sparser edges, and the student with the same teacher."""
        key = f"{self.trials.edges_key}~{ranking}-{100 * share:g}-{self.digest}"
        path = self.job.hops / hops_name({"edges": key, "precision": self.job.precision})
        if not (path / "cut-indices.npy").exists():
            scores = edge_scores(self.trials.edges, self.rank(ranking))
            write_cut(self.trials.edges, kept_edges(self.trials.edges, scores, share), path)
        trials = prepared(self.job, self.trials.chosen, key)
        trials = replace(trials, board=self.trials.board, history=self.trials.history)
        trained = train_student(trials, self.found.student, self.found.probs)
        kept = int(trials.edges.indptr[-1]) / max(1, int(self.trials.edges.indptr[-1]))
        return Cut(ranking, share, f"{ranking}, {kept:.0%} of the edges", trials, trained)

    def row(self, cut: Cut) -> Row:
        gain = self.trials.gain(cut.trained, self.found.trained)
        return {"name": cut.name, "score": cut.trained.value, "statistic": gain}

    def worse(self, cut: Cut) -> bool:
        return self.trials.gain(self.found.trained, cut.trained) > SCORE_SIGMAS


def choose_cut(job: Job, trials: Trials, found: Found) -> tuple[Trials, Found]:
    """What the search found, on fewer edges if validation does not fall."""
    cutter, made = Cutter(job, trials, found), list(found.decisions)
    rankings = [ranking for ranking in job.options.edge_rankings if ranking != "curriculum"]
    if "curriculum" in job.options.edge_rankings:
        cutter.mask = fit_edge_mask(trials, cutter.known)
        rankings += ["curriculum"] if cutter.mask is not None else []
        made.append(_mask_decision(cutter.mask))
    tried, taken = sparsest(cutter, rankings)
    whole: Row = {"name": ALL, "score": found.trained.value, "statistic": 0.0}
    made.append(
        Decision(
            stage="edges",
            taken=ALL if taken is None else taken.name,
            tried=(whole, *(cutter.row(cut) for cut in tried)),
            statistic=SCORE,
            threshold=-float(SCORE_SIGMAS),
        )
    )
    _remove(tried, taken)
    if taken is None:
        return trials, replace(found, decisions=tuple(made))
    kept = replace(found, trained=taken.trained, decisions=tuple(made))
    if not kept.student.label_weight:
        kept = with_labels(taken.trials, kept, None, replace(job.options, serves="any"))
    return taken.trials, replace(kept, cut=trials.late or trials.pace.shortened)


def sparsest(cutter: Cutter, rankings: list[str]) -> tuple[list[Cut], Cut | None]:
    """The cuts that were tried, the random control last, and the one taken."""
    tried, taken = list[Cut](), None
    for share in sorted(cutter.job.options.edge_shares, reverse=True):
        cuts = []
        for ranking in rankings:
            if cutter.trials.late:
                break
            cuts.append(cutter.cut(ranking, share))
        tried += cuts
        best = max(cuts, key=lambda cut: cut.trained.value, default=None)
        if best is None or cutter.worse(best):
            break
        taken, rankings = best, [best.ranking]
    control = taken or next(iter(tried), None)
    if control is not None and not cutter.trials.late and control.ranking != "random":
        tried.append(cutter.cut("random", control.share))
    return tried, taken


def _remove(tried: list[Cut], taken: Cut | None) -> None:
    """Hops that no run reads."""
    for cut in tried:
        if cut is not taken:
            shutil.rmtree(cut.trials.hops.path, ignore_errors=True)


def _mask_decision(mask: FittedMask | None) -> Decision:
    if mask is None:
        return Decision(stage="edge mask", taken="M_G tells nothing on the subgraphs")
    rows: list[Row] = [
        {"name": name, "statistic": float(value)}
        for name, value in zip(NUMBERS, mask.weight, strict=True)
    ]
    return Decision(
        stage="edge mask",
        taken=f"M_G of subgraphs as a line in {len(NUMBERS)} numbers, R² {mask.r2:.2f}",
        tried=tuple(rows),
        statistic="coefficient, both sides standardised",
    )


def _carried(
    mask: FittedMask, known: EdgeNumbers, receiver: np.ndarray, sender: np.ndarray
) -> np.ndarray:
    return mask.scores(known.numbers(receiver, sender))
