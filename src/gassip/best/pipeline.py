"""The search of both presets: Algorithm 2, and in `best` the stages past the paper (METHOD.md).

Every choice is made on validation nodes; what comes first stays unless another is better beyond
chance. No test label is read here.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from gassip.best.candidates import choose_candidates, train_candidates
from gassip.best.decisions import Decisions
from gassip.best.direction import choose_direction
from gassip.best.edge_cleaning import drop_dissimilar_edges, edges_hurt
from gassip.best.ensemble import build_teacher
from gassip.best.label_propagation import add_label_propagation
from gassip.best.pruning import prune_if_behind
from gassip.best.recipe import choose_recipe, student_recipe
from gassip.best.student import (
    Chosen,
    choose_edges,
    choose_student,
    classroom,
    student_architectures,
)
from gassip.best.trials import Memory, Trials
from gassip.graph.graph import Graph
from gassip.metrics import Metric
from gassip.paper import loop
from gassip.paper.induce import best_path, induce
from gassip.paper.state import State
from gassip.settings import Settings, preset
from gassip.train.plan import Plan, Row, symmetrised
from gassip.train.trainer import seeded


class Checkpoint(loop.Checkpoint, Memory, Protocol):
    """Where a search keeps its state between epochs, and the nets that it has trained."""


def search(
    graph: Graph,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    metric: Metric = "accuracy",
    on_epoch: Callable[[Row], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Plan:
    """Algorithm 2 on `graph`, then the stages of `best` where the settings have them (by default:
    the preset `best`). Equal seeds give equal bits on one machine and thread count."""
    settings, log = settings or preset("best", graph), Decisions()
    both = log(choose_direction(graph, settings.direction, metric))
    graph = symmetrised(graph, both)
    with seeded(seed, graph.device):
        state = loop.run(
            graph, settings.search, metric=metric, on_epoch=on_epoch, checkpoint=checkpoint
        )
        if settings.best is None:
            return of_paper(state, settings, metric, both, log)
        found = induce(state, settings, symmetrised=both)
        rows: list[Row] = []

        def tell(row: Row) -> None:
            rows.append(row)
            if on_epoch is not None:
                on_epoch(row)

        trials = Trials(
            graph,
            seed=seed,
            metric=metric,
            tell=tell,
            first_epoch=len(state.history),
            memory=checkpoint,
        )
        plan = improve(trials, state, found, log)
    history = [*found.history, *rows]
    seconds = sum(float(row["seconds"]) for row in history)
    return replace(plan, history=history, seconds=seconds, decisions=tuple(log.made))


def of_paper(state: State, settings: Settings, metric: Metric, both: bool, log: Decisions) -> Plan:
    """What the paper's method hands over (Algorithm 2, lines 9-11)."""
    began = time.perf_counter()
    path = best_path(state, settings, metric)
    plan = induce(state, settings, symmetrised=both, path=path)
    seconds = plan.seconds + time.perf_counter() - began
    return replace(plan, seconds=seconds, decisions=tuple(log.made))


def improve(trials: Trials, state: State, found: Plan, log: Decisions) -> Plan:
    """The stages of `best`, one after the other."""
    settings = found.settings
    assert settings.best is not None
    cleaned = log(drop_dissimilar_edges(trials, settings.best.cleaning))
    hurt = log(edges_hurt(cleaned, trials.metric))
    if hurt:
        settings = settings.changed(teachers=1, knn=0, spectral=False, feature_share=1.0)
    best, graph = settings.best, cleaned.graph
    assert best is not None
    architectures = choose_candidates(state, settings, trials.metric, hurt=hurt)
    name, recipe = log(choose_recipe(trials, graph, architectures[0], settings))
    candidates = train_candidates(trials, graph, architectures, recipe)
    teacher = log(build_teacher(trials, cleaned, candidates, recipe, best.teaching))
    edge_mask = found.edge_mask[cleaned.kept]
    taught = student_recipe(name, recipe)
    room = classroom(trials, graph, teacher, taught, edge_mask, settings)
    students = student_architectures(
        best.student, candidates.best_architectures(best.student.students)
    )
    student = log(choose_student(room, students, best.student.size_share))
    student = log(choose_edges(room, student, best.student.size_share))
    student = log(prune_if_behind(room, student, students, settings))
    soft_labels = teacher.probs
    if best.labels.label_propagation:
        student, soft_labels = log(add_label_propagation(room, student))
    keep = cleaned.kept.clone()
    keep[cleaned.kept] = room.cuts[student.cut]
    return planned(found, student, keep, soft_labels)


def planned(found: Plan, student: Chosen, edge_keep: Tensor, teacher: Tensor) -> Plan:
    """The student as something to retrain."""
    net = student.trial.net
    last = {name: value.detach().clone() for name, value in net.named_parameters()}
    return replace(
        found,
        recipe=student.trial.recipe,
        architecture=student.trial.architecture,
        weight_keep=[torch.ones_like(layer.weight, dtype=torch.bool) for layer in net.layers],
        edge_keep=edge_keep,
        first_weights=student.trial.first,
        last_weights=last,
        feature_index=net.feature_index,
        teacher=teacher,
    )


def num_rows(settings: Settings) -> int:
    """Epochs of a search and, after them, the most nets that its stages train."""
    epochs, best = settings.search.epochs, settings.best
    if best is None:
        return epochs
    teaching, pruning = best.teaching, best.pruning
    names = best.recipe.recipes
    recipes = len(names) if len(names) > 1 else 0
    regressions = 1 + len(best.cleaning.clean_shares)
    wider = teaching.teachers if teaching.teacher_hidden > 0 else 0
    cuts = len(best.edges.edge_rankings) * len(best.edges.edge_shares) - 1
    pruned = (best.student.students + len(pruning.prune_candidates)) * (1 + len(pruning.size_steps))
    labels = teaching.teachers + 1 if best.labels.label_propagation else 0
    teachers = best.candidates.candidates + wider + int(teaching.knn > 0)
    students = best.student.students + cuts + pruned * bool(pruning.size_steps) + labels
    return epochs + recipes + regressions + teachers + students
