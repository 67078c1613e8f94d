"""The classifier: search, then retrain, with scikit-learn's habits.

    fit(graph)                     a PyG Data, networkx graph, Graph, ... with its own labels, masks
    fit(adjacency, y, x=x)         a scipy sparse matrix, or edge_index, with x and y beside it
    GassipClassifier(graph=g)      fit(nodes, y), predict(nodes), score(nodes, y): nodes of one
                                   graph by number, as cross_val_score and GridSearchCV deal them
    fit(table, y)                  rows without edges: each is joined to its nearest rows

Masks of a graph say which nodes are for training, validation and test; without any, `seed` draws a
stratified split. Predictions are for all nodes, or those asked for, in the values that y held.
Training has one thread, and then the caller has as many as before (gassip.set_threads).
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from gassip.best.anytime import both
from gassip.best.pipeline import search
from gassip.best.serves import weigh_graphs
from gassip.best.steps import num_rows, planned_steps
from gassip.budget.budget import Budget
from gassip.budget.fit import check_possible, retrain_within
from gassip.budget.timed import Limit, Search
from gassip.errors import GassipError, GassipWarning
from gassip.estimator.new_graphs import Training, warnings_on
from gassip.estimator.options import budget_of, progress
from gassip.estimator.stored import COUNTS, stored_labels, stored_solution
from gassip.estimator.tasks import (
    Form,
    Task,
    graph_task,
    is_table,
    node_numbers,
    nodes_task,
    table_task,
)
from gassip.estimator.truth import checked_mask, class_codes, given_test_mask
from gassip.graph.graph import Graph, on_device
from gassip.graph.inputs import to_numpy
from gassip.graph.memory import only_one, unlabelled
from gassip.metrics import METRICS, Metric, constant_score
from gassip.metrics import score as metric_score
from gassip.runs.format import given_features
from gassip.runs.write import inputs_fingerprint, open_run, retrained, save
from gassip.settings import Settings, preset
from gassip.threads import one_thread
from gassip.train.events import Listener, Watch
from gassip.train.inductive import MOST_SECONDS, inductive_score
from gassip.train.leaderboard import final, to_rows
from gassip.train.plan import Plan, Solution
from gassip.train.refit import refit_plan, with_validation_labels
from gassip.train.trainer import predict as class_scores
from gassip.train.trainer import retrain


class GassipClassifier(ClassifierMixin, BaseEstimator):
    """Search, then retrain. `settings` is a Settings, or a mapping of the fields that differ from
    the preset.

    `budget` is a Budget, or a mapping of its fields such as {"max_params": "25%"}: the net is then
    physically cut to it, and `fit` raises GassipError with the least that can be had where it
    cannot be kept. `time_limit` such as 60, "60s" or "10m": the net that is best on validation by
    then. `refit`: what was found is trained again on training and validation labels, after the time
    limit. `callback` hears of every step (gassip.train.events). `jobs`: processes that train the
    nets of a stage. `graph` is the graph whose nodes `fit` and `predict` name by number. `verbose`
    tells the progress on stderr.

    After `fit`: `plan_` (what the search found), `solution_` (the trained net and the sparser
    graph), `searched_` (the same before a refit), `model_` (the net, a plain module), `graph_` (the
    input), `classes_`, `n_features_in_`.
    """

    def __init__(
        self,
        preset: str = "best",
        seed: int = 0,
        metric: Metric = "accuracy",
        device: str = "cpu",
        settings: Settings | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        graph: Any = None,
        verbose: bool = False,
        time_limit: str | float | None = None,
        refit: bool = False,
        callback: Listener | None = None,
        jobs: int = 1,
    ) -> None:
        self.preset = preset
        self.seed = seed
        self.metric = metric
        self.device = device
        self.settings = settings
        self.budget = budget
        self.graph = graph
        self.verbose = verbose
        self.time_limit = time_limit
        self.refit = refit
        self.callback = callback
        self.jobs = jobs

    def fit(self, data: Any, y: Any = None, *, x: Any = None) -> Self:
        """Search and retrain. Labels are the graph's own unless `y` is given."""
        if self.metric not in METRICS:
            raise GassipError(
                f"there is no metric {self.metric!r}; choose one of {', '.join(METRICS)}"
            )
        began = time.monotonic()
        task = self._task(data, y, x)
        graph = on_device(task.graph, self.device)
        with one_thread():
            self._train(graph, self._settings(graph, task.form), began)
            self._searched = (graph, self.plan_)
            if self.refit:
                graph = self._refit(graph)
        self.graph_, self.classes_, self.form_ = graph, task.classes, task.form
        self.neighbours_ = task.neighbours
        self.model_: nn.Module = self.solution_.model
        self.n_features_in_ = graph.num_features
        whole = self.plan_.on(graph, all_edges=True)
        self.inputs_fingerprint_ = inputs_fingerprint(whole)
        self._training = Training.of(whole)
        self._measured: dict[str, Any] | None = None
        return self

    def _train(self, graph: Graph, settings: Settings, began: float) -> None:
        seed, metric, budget = self.seed, self.metric, budget_of(self.budget)
        limit, steps = Limit.of(self.time_limit, began, graph), planned_steps(settings)
        tell = self.callback or (lambda event: None)
        watch = Watch(tell, steps, since=began, deadline=limit.end if limit else None)
        if budget:
            check_possible(graph, settings, budget)
        hear = both(watch.row, progress("search", num_rows(settings), self.verbose))
        again = both(watch.retrained, progress("retrain", settings.retraining.epochs, self.verbose))
        if limit or budget:
            whole = Search(graph, settings, budget, seed, metric, hear=hear, again=again)
            found = whole.run(None, self.jobs, limit)
            self.plan_, self.solution_ = found.plan, found.solution
        else:
            self.plan_ = search(
                graph, settings, seed=seed, metric=metric, on_epoch=hear, jobs=self.jobs
            )
            self.solution_ = retrain(graph, self.plan_, seed=seed, metric=metric, on_epoch=again)
        if limit is None and self.solution_.seconds < MOST_SECONDS:
            self._weigh_graphs(graph, budget)
        self.searched_ = self.solution_
        watch.done()

    def _weigh_graphs(self, graph: Graph, budget: Budget) -> None:
        """The net that serves the graphs asked for, if label propagation has a part in it."""
        options: dict[str, Any] = {"seed": self.seed, "metric": self.metric}

        def train(plan: Plan) -> tuple[Plan, Solution]:
            if budget:
                return retrain_within(graph, plan, budget, **options)
            return plan, retrain(graph, plan, **options)

        served = weigh_graphs(graph, self.plan_, self.solution_, train, **options)
        if served is not None:
            self.plan_, self.solution_ = served.plan, served.solution

    def _refit(self, graph: Graph) -> Graph:
        """Train what was found on validation labels too; the graph with these for training."""
        seed, metric = self.seed, self.metric
        plan = refit_plan(self.plan_, self.solution_.best_epoch, graph, seed=seed, metric=metric)
        graph = with_validation_labels(graph)
        self.plan_, self.solution_ = retrain_within(
            graph, plan, budget_of(self.budget), seed=seed, metric=metric
        )
        return graph

    def leaderboard(self) -> list[dict[str, object]]:
        """Every net that `fit` trained, best on validation first (gassip.train.leaderboard)."""
        check_is_fitted(self, "model_")
        return to_rows(final(self.plan_.leaderboard, retrained(self.searched_, self.metric)))

    def predict(self, data: Any = None, *, x: Any = None) -> np.ndarray:
        """The label of every node or row asked for; of the training graph where no data is
        given."""
        best = self.predict_proba(data, x=x).argmax(1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def predict_proba(self, data: Any = None, *, x: Any = None) -> np.ndarray:
        """The probability of every class in `classes_`, [N, C]."""
        check_is_fitted(self, "model_")
        graph, rows = self._inputs(data, x)
        logits = class_scores(self.solution_.model, graph)[torch.from_numpy(rows)]
        share: np.ndarray = torch.softmax(logits.double(), 1).cpu().numpy()
        return share

    def score(self, data: Any, y: Any = None, *, mask: Any = None, x: Any = None) -> float:
        """The metric over the nodes or rows given; of a graph over those in `mask`, the test nodes
        where it is None."""
        share = torch.from_numpy(self.predict_proba(data, x=x))
        if self.form_ == "graph" and y is not None and np.asarray(y).dtype == bool:
            raise GassipError("y holds True and False; say which nodes to judge by as mask=...")
        truth = class_codes(data, y, self.classes_, len(share))
        judged = self._judged(data, mask, len(share), x) & (truth >= 0)
        chosen = torch.from_numpy(judged)
        value = metric_score(self.metric, share[chosen].log(), torch.from_numpy(truth)[chosen])
        if value is None:
            raise GassipError(f"{self.metric} is not defined on these {int(judged.sum())} nodes")
        return value

    def fit_summary(self) -> dict[str, Any]:
        """What was found: architecture, scores, sizes, seconds, notes and decisions. `inductive`:
        the score on new nodes, for which the net is trained once more when it is first asked for
        (gassip.train.inductive). `constant`: the score of the largest class alone."""
        check_is_fitted(self, "model_")
        solution, plan, measured = self.solution_, self.plan_, self._measures()
        return {
            "architecture": list(plan.architecture.ops),
            "scores": solution.scores,
            **measured,
            **{name: getattr(solution, name) for name in COUNTS},
            "size": None if solution.size is None else asdict(solution.size),
            "symmetrised": plan.symmetrised,
            "seconds": {"search": plan.seconds, "retrain": solution.seconds},
            "notes": list(self.graph_.notes),
            "decisions": [asdict(made) for made in plan.decisions],
        }

    def _measures(self) -> dict[str, Any]:
        """For meta.json: what the command line measures of its net after a search."""
        if self._measured is None:
            graph, plan = self._searched
            with one_thread():
                made = inductive_score(
                    graph, plan, self.searched_, seed=self.seed, metric=self.metric
                )
            self._measured = {
                "inductive": None if made is None else made.to_json(),
                "constant": constant_score(graph, self.metric),
            }
        return self._measured

    def to_pyg(self) -> nn.Module:
        """The net as a module on which torch_geometric.explain works: model(x, edge_index)."""
        from gassip.nn.pyg import to_pyg

        check_is_fitted(self, "model_")
        return to_pyg(self.solution_.model)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """A run's folder, as `gassip search` writes; `load` and `gassip predict --data` read it."""
        check_is_fitted(self, "model_")
        if self.form_ == "table":
            raise GassipError(
                "a classifier of a table without edges needs its rows to predict; keep it with "
                "joblib.dump"
            )
        labels = {"form": self.form_, "classes": self.classes_.tolist()}
        save(
            folder,
            self.graph_,
            self.plan_,
            self.solution_,
            seed=self.seed,
            metric=self.metric,
            preset=self.preset,
            source={"kind": "memory", "classifier": labels},
            budget=budget_of(self.budget).given,
            overwrite=overwrite,
            measured=self._measured,
        )

    @classmethod
    def load(cls, folder: str | Path) -> "GassipClassifier":
        """The classifier that `save` wrote. Of its graph it has what the net reads: the kept edges
        and columns."""
        run = open_run(folder)
        meta = run.meta
        made = cls(preset=meta["preset"] or "best", seed=meta["seed"], metric=meta["metric"])
        made.graph_, made.classes_, made.form_ = stored_labels(run)
        made.neighbours_ = None
        made.plan_, made.solution_ = run.plan, stored_solution(run, made.graph_)
        made.searched_ = made.solution_
        made.model_, made.n_features_in_ = run.model, given_features(meta)
        made.inputs_fingerprint_ = meta["source"].get("inputs_fingerprint")
        made._training = Training(
            statistics=run.statistics, degree=meta["edges_total"] / max(meta["nodes"], 1)
        )
        made._measured = {name: meta.get(name) for name in ("inductive", "constant")}
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # What was given, as a graph

    def _task(self, data: Any, y: Any, x: Any) -> Task:
        if self.graph is not None:
            return nodes_task(self.graph, data, y, self.seed)
        if x is None and is_table(data):
            least = {"ensure_min_samples": 2}
            table, y = validate_data(self, data, y, accept_sparse="csr", dtype=np.float32, **least)
            return table_task(table, y, self.seed)
        return graph_task(data, y, x, self.seed)

    def _inputs(self, data: Any, x: Any) -> tuple[Graph, np.ndarray]:
        """The graph to run on, and which of its nodes are asked for."""
        trained_on = self.solution_.graph
        every = np.arange(trained_on.num_nodes)
        if data is None:
            return trained_on, every
        if self.form_ == "nodes":
            return trained_on, node_numbers(data, trained_on.num_nodes)
        if self.neighbours_ is not None:
            table = validate_data(self, data, accept_sparse="csr", dtype=np.float32, reset=False)
            graph = self.neighbours_.extended(trained_on, table)
            return graph, np.arange(trained_on.num_nodes, graph.num_nodes)
        graph = self._other(data, x)
        return graph, np.arange(graph.num_nodes)

    def _other(self, data: Any, x: Any) -> Graph:
        """The sparser graph where the training graph is meant, else the graph as it is."""
        graph = unlabelled(data, self.graph_, x)
        if graph.num_features != self.n_features_in_:
            raise GassipError(
                f"x has {graph.num_features} features; the classifier was fitted on "
                f"{self.n_features_in_}"
            )
        graph = self.plan_.on(graph, all_edges=True)
        if inputs_fingerprint(graph) == self.inputs_fingerprint_:
            return self.solution_.graph
        for line in warnings_on(graph, self._training, self.plan_, self.solution_.model):
            warnings.warn(line, GassipWarning, stacklevel=5)
        unknown = torch.zeros_like(graph.train_mask)  # labels of another graph correct nothing
        return on_device(replace(graph, train_mask=unknown), self.device)

    # Scores

    def _judged(self, data: Any, mask: Any, rows: int, x: Any) -> np.ndarray:
        """[N] bool."""
        if mask is None and self.form_ != "graph":
            return np.ones(rows, dtype=bool)
        return checked_mask(self._test_mask(only_one(data), x) if mask is None else mask, rows)

    def _test_mask(self, data: Any, x: Any) -> np.ndarray:
        """The data's own; where it has none and is the training graph, the one drawn in `fit`."""
        mask = given_test_mask(data)
        if mask is None and self._inputs(data, x)[0] is self.solution_.graph:
            mask = self.graph_.test_mask
        if mask is None:
            raise GassipError(
                "data has no test_mask; say which nodes to judge by, score(data, mask=...)"
            )
        return to_numpy(mask).astype(bool)

    # Parameters

    def _settings(self, graph: Graph, form: Form) -> Settings:
        given = self.settings
        made = given if isinstance(given, Settings) else preset(self.preset, graph, given)
        if form == "table" and made.best is not None:  # its edges are made; a new row has others
            made = made.changed(degree_features=False)
        return made
