"""The search of both presets: Algorithm 2, and in `best` the stages past the paper (METHOD.md).

Every choice is made on validation nodes; what comes first stays unless another is better beyond
chance. No test label is read here.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from gassip.best.candidates import (
    Candidates,
    choose_candidates,
    first_candidate,
    train_best,
    train_candidates,
)
from gassip.best.decisions import Decisions
from gassip.best.degrees import choose_degrees, may_read_degrees
from gassip.best.direction import choose_direction
from gassip.best.edge_cleaning import Cleaned, drop_dissimilar_edges
from gassip.best.edge_weights import choose_weights, has_weights
from gassip.best.ensemble import KNN_STAGE, Teacher, build_teacher, knn_request
from gassip.best.incumbent import BestSoFar, plan_of
from gassip.best.label_propagation import add_label_propagation
from gassip.best.learning import commonest, first_that_learns
from gassip.best.level import keep_level, plain_trials
from gassip.best.plain import HIGHEST, choose_plain
from gassip.best.pruning import is_behind, prune_if_behind
from gassip.best.recipe import (
    Taken,
    choices_beside,
    choose_beside,
    choose_recipe,
    first_trials,
    student_recipe,
)
from gassip.best.rules import RECIPE_SIGMAS
from gassip.best.student import (
    Chosen,
    Classroom,
    choose_edges,
    choose_student,
    classroom,
    in_full,
    settle_cut,
    student_architectures,
)
from gassip.best.tasks import Asked
from gassip.best.trials import Memory, Request, Trial, Trials, beats, validated
from gassip.graph.graph import Graph
from gassip.graph.similarity import joined
from gassip.metrics import Metric
from gassip.nn.net import Architecture, dense_of, scale_and_shift
from gassip.paper import loop
from gassip.paper.choose import choose_plan
from gassip.paper.induce import induce
from gassip.paper.state import State
from gassip.settings import Settings, preset
from gassip.settings.training import Recipe
from gassip.train.deadline import Deadline
from gassip.train.leaderboard import Standing, with_taken
from gassip.train.plan import Plan, Row, symmetrised, unweighted
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
    jobs: int = 1,
    deadline: Deadline | None = None,
    best_so_far: BestSoFar | None = None,
    prefix: str = "",
    log: Decisions | None = None,
    board: list[Standing] | None = None,
) -> Plan:
    """Algorithm 2 on `graph`, then the stages of `best` where the settings have them (by default:
    the preset `best`), whose nets are trained in `jobs` processes. Equal seeds give equal bits on
    one machine and thread count, whatever the number of processes.

    With a deadline it ends with TimeUp; what was done by then is in `best_so_far`, `log` and
    `board`, whose names begin with `prefix`."""
    settings, log = settings or preset("best", graph), Decisions() if log is None else log
    graph, reading = as_it_is_read(graph, settings, metric, log)
    rows: list[Row] = []

    def tell(row: Row) -> None:
        rows.append(row)
        if on_epoch is not None:
            on_epoch(row)

    def supernet(hear: Callable[[Row], None] | None) -> State:
        own, read = settings.search, as_read(graph, settings)
        return loop.run(
            read, own, metric=metric, on_epoch=hear, checkpoint=checkpoint, deadline=deadline
        )

    trials = Trials(
        graph,
        seed=seed,
        metric=metric,
        tell=tell,
        memory=checkpoint,
        jobs=jobs,
        deadline=deadline,
        prefix=prefix,
    )
    trials.board = trials.board if board is None else board
    if settings.best is not None and settings.best.plain.plain_only:
        plan = plain_plan(trials, settings, reading, log, best_so_far)
        return with_history(plan, rows, log)
    with seeded(seed, graph.device), closing(trials):
        if settings.best is None:
            return of_paper(supernet(on_epoch), settings, metric, reading.symmetrised, log, tell)
        cleaned, state = beside_supernet(trials, settings, supernet, on_epoch, log)
        found = induce(state, settings, symmetrised=reading.symmetrised)
        found = replace(found, weighted=reading.weighted, degrees=reading.degrees)
        plan = improve(trials, state, found, cleaned, log, best_so_far)
    return with_history(plan, [*found.history, *rows], log)


def beside_supernet(
    trials: Trials,
    settings: Settings,
    supernet: Callable[[Callable[[Row], None] | None], State],
    on_epoch: Callable[[Row], None] | None,
    log: Decisions,
) -> tuple[Cleaned, State]:
    """Edge cleaning, then Algorithm 2 beside the first trials of recipes."""
    assert settings.best is not None
    with trials.telling_later():
        cleaned = log(drop_dissimilar_edges(trials, settings.best.cleaning))
        for first in first_candidate(settings):
            trials.expect(first_trials(cleaned.graph, first, settings, trials.metric))
        state = supernet(trials.looking(on_epoch))
        trials.number = len(state.history)
    return cleaned, state


@dataclass(frozen=True)
class Reading:
    """How the graph is read: edges with the weights that were given or as 1, both ways or as given;
    features with columns of degree beside them or as given."""

    weighted: bool
    symmetrised: bool
    degrees: bool


def as_it_is_read(
    graph: Graph, settings: Settings, metric: Metric, log: Decisions
) -> tuple[Graph, Reading]:
    """Stages 0 and 1: weights and direction of edges, columns of degree; the graph so read."""
    weighted = settings.best is None or not has_weights(graph) or log(choose_weights(graph, metric))
    graph = graph if weighted else unweighted(graph)
    both = log(choose_direction(graph, settings.direction, metric))
    graph, best = symmetrised(graph, both), settings.best
    asked = best is not None and best.recipe.degree_features and may_read_degrees(graph)
    degrees = asked and log(choose_degrees(graph, metric))
    return graph.with_degrees if degrees else graph, Reading(weighted, both, degrees)


def as_read(graph: Graph, settings: Settings) -> Graph:
    """The graph as the search reads it: dense features standardised where all nets do so."""
    if settings.best is None or not settings.best.recipe.standardised:
        return graph
    x = dense_of(graph.x).double()
    scale, shift = scale_and_shift(x)
    return replace(graph, x=(x * scale + shift).float())


def with_history(plan: Plan, rows: list[Row], log: Decisions) -> Plan:
    """The plan with all that led to it."""
    seconds = sum(float(row["seconds"]) for row in rows)
    return replace(plan, history=rows, seconds=seconds, decisions=tuple(log.made))


def of_paper(
    state: State,
    settings: Settings,
    metric: Metric,
    both: bool,
    log: Decisions,
    tell: Callable[[Row], None],
) -> Plan:
    """What the paper's method hands over (Algorithm 2, lines 9-11)."""
    began, rows = time.perf_counter(), list(state.history)

    def trained(row: Row) -> None:
        rows.append({"epoch": len(rows) + 1} | row)
        tell(rows[-1])

    plan, decisions = choose_plan(state, settings, metric, symmetrised=both, tell=trained)
    log.made.extend(decisions)
    seconds = plan.seconds + time.perf_counter() - began
    return replace(plan, history=rows, seconds=seconds, decisions=tuple(log.made))


def plain_plan(
    trials: Trials,
    settings: Settings,
    reading: Reading,
    log: Decisions,
    best_so_far: BestSoFar | None,
) -> Plan:
    """The best plain net, and nothing else."""

    def plan(trial: Trial) -> Plan:
        plain = plan_of(trial, trials.graph, settings, symmetrised=reading.symmetrised)
        return replace(plain, weighted=reading.weighted, degrees=reading.degrees)

    if best_so_far is not None:
        trials.on_trial = lambda request, trial: best_so_far.offer(trial, lambda: plan(trial))
    taken = log(choose_plain(trials, settings))
    board = with_taken(trials.board, taken.name, HIGHEST)
    return replace(plan(taken), leaderboard=board)


def offering(
    best_so_far: BestSoFar, found: Plan, kept: Tensor, room: Classroom
) -> Callable[[Request, Trial], None]:
    """Offers every student as something that can be handed over at once."""

    def offer(request: Request, trial: Trial) -> None:
        cut = next((name for name, graph in room.graphs.items() if graph is request.graph), None)
        teacher = request.teacher
        if cut is None or teacher is None or request.start is not None:
            return
        keep = kept.clone()
        keep[kept] = room.cuts[cut]
        best_so_far.offer(trial, lambda: planned(found, Chosen(trial, cut), keep, teacher))

    return offer


def improve(
    trials: Trials,
    state: State,
    found: Plan,
    cleaned: Cleaned,
    log: Decisions,
    best_so_far: BestSoFar | None = None,
) -> Plan:
    """The stages of `best` after edge cleaning, one after the other."""
    settings, best = found.settings, found.settings.best
    assert best is not None
    graph, size = cleaned.graph, best.student.size_share
    candidates, name, recipe, knn_graph = trained_candidates(trials, state, cleaned, settings, log)
    teacher = log(build_teacher(trials, cleaned, candidates, recipe, best.teaching, knn_graph))
    edge_mask = found.edge_mask[cleaned.kept]
    taught = replace(student_recipe(name, recipe), keep_epoch=best.student.student_keep_epoch)
    room = classroom(trials, graph, teacher, taught, edge_mask, settings)
    if best_so_far is not None:
        trials.on_trial = offering(best_so_far, found, cleaned.kept, room)
    ranked = candidates.best_architectures(best.student.students)
    students = student_architectures(best.student, ranked)
    student = log(choose_student(room, students, size, best.edges))
    whole = in_full(room, student, size)
    behind = is_behind(room, whole)
    student = log(choose_edges(room, whole, size, best.edges, behind=behind))
    student = log(settle_cut(room, whole, student, size, best.edges))
    student = log(prune_if_behind(room, student, students, settings))
    if best.student.level and not best.student.final_ops:
        student = log(
            keep_level(room, student, candidates, size, best.plain.plain, best.recipe.trial_epochs)
        )
    soft_labels = teacher.probs
    if best.labels.label_propagation:
        student, soft_labels = log(add_label_propagation(room, student, best.labels.serves))
    keep = cleaned.kept.clone()
    keep[cleaned.kept] = room.cuts[student.cut]
    board = [*trials.board, teacher_standing(teacher, graph, trials.metric)]
    plan = planned(found, student, keep, soft_labels)
    return replace(plan, leaderboard=with_taken(board, student.trial.name))


def trained_candidates(
    trials: Trials, state: State, cleaned: Cleaned, settings: Settings, log: Decisions
) -> tuple[Candidates, str, Recipe, Graph | None]:
    """Candidates, the name of their recipe and the recipe, the kNN graph of one further teacher."""
    best, graph = settings.best, cleaned.graph
    assert best is not None
    architectures = choose_candidates(state, settings, trials.metric)
    first = first_that_learns(
        architectures,
        best.recipe.recipes,
        validated(cleaned.judge.probs, graph, trials.metric),
        commonest(graph, trials.metric),
        lambda own, names: recipe_for(own, trials, graph, settings, log, names),
    )
    candidates = train_candidates(
        trials, graph, architectures, first.name, first.recipe, best.recipe.trial_epochs
    )
    taken = own_recipe(trials, graph, candidates, settings, first, log)
    name, recipe, knn_graph = taken.name, taken.recipe, None
    later: list[Asked] = []
    if best.teaching.teacher_hidden == 0:  # else the best are trained anew, wider
        survivors = max(best.teaching.teachers, best.student.students)
        beside = []
        if best.teaching.knn > 0:
            knn_graph = joined(graph, best.teaching.knn)
            beside = [(KNN_STAGE, knn_request(knn_graph, architectures[0], recipe))]
        if best.student.level and not best.student.final_ops:
            later = plain_trials(graph, candidates, best.plain.plain, best.recipe.trial_epochs)
        candidates = train_best(trials, graph, candidates, survivors, name, recipe, beside, later)
        name, recipe = candidates.best_recipe
    return candidates, name, recipe, knn_graph


def recipe_for(
    architecture: Architecture,
    trials: Trials,
    graph: Graph,
    settings: Settings,
    log: Decisions,
    names: tuple[str, ...] = (),
) -> Taken:
    """A recipe, of those named or all, with what goes beside it."""
    taken = log(choose_recipe(trials, graph, architecture, settings, names))
    if choices_beside(graph, trials.metric, settings):
        taken = log(choose_beside(trials, graph, architecture, taken, settings))
    return taken


def own_recipe(
    trials: Trials,
    graph: Graph,
    candidates: Candidates,
    settings: Settings,
    chosen: Taken,
    log: Decisions,
) -> Taken:
    """The recipe was chosen with the first candidate; if another one validates better, recipes
    compete with that one, but for those that were behind beyond chance."""
    best = candidates.ranked[0]
    if len(chosen.level) < 2 or not beats(best, candidates.trials[0], RECIPE_SIGMAS):
        return chosen
    return recipe_for(best.architecture, trials, graph, settings, log, chosen.level)


def teacher_standing(teacher: Teacher, graph: Graph, metric: Metric) -> Standing:
    """The ensemble that taught, as a row of the leaderboard."""
    return Standing(
        name="teacher ensemble",
        kind="teacher",
        architecture=", ".join(str(trial.architecture) for trial in teacher.trials),
        val_score=validated(teacher.probs, graph, metric).score(),
        weights=sum(trial.net.num_weights()[0] for trial in teacher.trials),
        edges=graph.num_edges,
    )


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
        soft_edges=False,  # a student is trained and judged on edges as given
        first_weights=student.trial.first,
        last_weights=last,
        feature_index=net.feature_index,
        teacher=teacher,
    )
