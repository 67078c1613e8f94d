"""GassipClassifier: the method with scikit-learn's habits, over one graph at a time.

A graph is a PyG `Data` or a `Graph`. Its own masks say which nodes are for training, validation and
test; where it has none a stratified split is drawn by `seed`. Predictions are for all nodes, in the
values that y held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gassip.best.pipeline import search
from gassip.budget.budget import Budget
from gassip.budget.candidates import retrain_best, search_within
from gassip.budget.fit import check_possible
from gassip.errors import GassipError
from gassip.graph.graph import Graph, on_device, to_numpy
from gassip.metrics import METRICS, Metric
from gassip.metrics import score as metric_score
from gassip.runs.write import inputs_fingerprint
from gassip.settings import Settings, preset
from gassip.train.trainer import predict as class_scores
from gassip.train.trainer import retrain

if TYPE_CHECKING:
    from torch_geometric.data import Data


class GassipClassifier(ClassifierMixin, BaseEstimator):
    """Search, then retrain. `settings` is a Settings, or a mapping of the fields that differ from
    the preset.

    `budget` is a Budget, or a mapping of its fields such as {"max_params": "25%"}: the net is then
    physically cut to it, and `fit` raises GassipError with the least that can be had where it
    cannot be kept.

    After `fit`: `plan_` (what the search found), `solution_` (the trained net and the sparser
    graph), `model_` (the net, a plain module), `graph_` (the input), `classes_`, `n_features_in_`.
    """

    def __init__(
        self,
        preset: str = "best",
        seed: int = 0,
        metric: Metric = "accuracy",
        device: str = "cpu",
        settings: Settings | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
    ) -> None:
        self.preset = preset
        self.seed = seed
        self.metric = metric
        self.device = device
        self.settings = settings
        self.budget = budget

    def fit(self, data: "Data | Graph", y: None = None) -> Self:
        """Search and retrain on the graph; labels are read from its y."""
        if y is not None:
            raise GassipError("labels are read from data.y (-1 where unknown); do not pass y")
        if self.metric not in METRICS:
            raise GassipError(
                f"there is no metric {self.metric!r}; choose one of {', '.join(METRICS)}"
            )
        plain = data if isinstance(data, Graph) else Graph.from_data(data, seed=self.seed)
        graph = on_device(plain, self.device)
        settings = (
            self.settings
            if isinstance(self.settings, Settings)
            else preset(self.preset, graph, self.settings)
        )
        if budget := self._budget():
            check_possible(graph, settings, budget)
            founds = search_within(graph, settings, budget, seed=self.seed, metric=self.metric)
            self.plan_, self.solution_ = retrain_best(
                graph, founds, budget, seed=self.seed, metric=self.metric
            )
        else:
            self.plan_ = search(graph, settings, seed=self.seed, metric=self.metric)
            self.solution_ = retrain(graph, self.plan_, seed=self.seed, metric=self.metric)
        self.graph_ = graph
        self.model_ = self.solution_.model
        # a Graph's y counts its classes from 0, a Data's y may hold any numbers
        own = (
            range(graph.num_classes)
            if isinstance(data, Graph)
            else [int(name) for name in graph.class_names]
        )
        self.classes_ = np.array(own)
        self.n_features_in_ = graph.num_features
        return self

    def predict(self, data: "Data | Graph | None" = None) -> np.ndarray:
        """The label of every node, [N]; of the training graph where no data is given."""
        share = self.predict_proba(data)
        labels: np.ndarray = self.classes_[share.argmax(1)]
        return labels

    def predict_proba(self, data: "Data | Graph | None" = None) -> np.ndarray:
        """The probability of every class in `classes_` for every node, [N, C]."""
        check_is_fitted(self, "model_")
        logits = class_scores(self.model_, self._graph(data))
        share: np.ndarray = torch.softmax(logits.double(), 1).cpu().numpy()
        return share

    def score(self, data: "Data | Graph", mask: "Tensor | np.ndarray | None" = None) -> float:
        """The metric over the nodes marked in `mask`, the test nodes where it is None."""
        share = torch.from_numpy(self.predict_proba(data))
        nodes = self._test_mask(data) if mask is None else to_numpy(mask)
        if nodes.dtype != bool or nodes.shape != (share.shape[0],):
            raise GassipError(f"mask must hold True/False for each of the {share.shape[0]} nodes")
        if data.y is None or len(data.y) != share.shape[0]:
            raise GassipError(
                f"y must hold one label for each of the {share.shape[0]} nodes, -1 where unknown"
            )
        y = to_numpy(data.y).reshape(-1)
        nodes = nodes & (y >= 0)
        if unknown := sorted(set(y[nodes].tolist()) - set(self.classes_.tolist())):
            raise GassipError(f"y holds label {unknown[0]}, which the training graph did not have")
        truth = torch.from_numpy(np.searchsorted(self.classes_, y[nodes]))
        value = metric_score(self.metric, share[torch.from_numpy(nodes)].log(), truth)
        if value is None:
            raise GassipError(f"{self.metric} is not defined on these {int(nodes.sum())} nodes")
        return value

    def _budget(self) -> Budget:
        given = self.budget or {}
        try:
            return given if isinstance(given, Budget) else Budget(**given)
        except TypeError:
            known = ", ".join(field.name for field in fields(Budget))
            raise GassipError(
                f"budget is {given!r}; expected a Budget, or amounts by name: {known}"
            ) from None

    def _graph(self, data: "Data | Graph | None") -> Graph:
        """The sparser graph where the training graph is meant, else the graph as it is."""
        if data is None:
            return self.solution_.graph
        graph = data if isinstance(data, Graph) else _inputs_of(data, self.graph_.class_names)
        if graph.num_features != self.n_features_in_:
            raise GassipError(
                f"x has {graph.num_features} features; the classifier was fitted on "
                f"{self.n_features_in_}"
            )
        graph = self.plan_.on(graph, all_edges=True)
        if inputs_fingerprint(graph) == inputs_fingerprint(
            self.plan_.on(self.graph_, all_edges=True)
        ):
            return self.solution_.graph
        unknown = torch.zeros_like(graph.train_mask)  # labels of another graph correct nothing
        return on_device(replace(graph, train_mask=unknown), self.device)

    def _test_mask(self, data: "Data | Graph") -> np.ndarray:
        """The data's own; where it has none and is the training graph, the one drawn in `fit`."""
        mask = data.test_mask if isinstance(data, Graph) else data.get("test_mask")
        if mask is None and self._graph(data) is self.solution_.graph:
            mask = self.graph_.test_mask
        if mask is None:
            raise GassipError(
                "data has no test_mask; say which nodes to judge by, score(data, mask)"
            )
        return to_numpy(mask).astype(bool)


def _inputs_of(data: "Data", class_names: Sequence[str]) -> Graph:
    for key in ("x", "edge_index"):
        if data.get(key) is None:
            raise GassipError(f"data.{key} is missing; a prediction needs x and edge_index")
    return Graph.inputs(
        data.x, data.edge_index, edge_weight=data.get("edge_weight"), class_names=class_names
    )
