"""How many epochs and nets a search has, for progress and the time left."""

from gassip.best.plain import plain_architectures
from gassip.paper.choose import most_trials
from gassip.settings import Settings
from gassip.train.events import Steps


def planned_steps(settings: Settings) -> Steps:
    """The steps of a search and of the final training that are likely."""
    epochs, nets = settings.search.epochs, most_trials(settings)
    if settings.best is not None:
        likely = settings.changed(size_steps=(), label_propagation=False)
        epochs = 0 if settings.best.plain.plain_only else epochs
        nets = num_rows(likely) - epochs
    return Steps(search=epochs, stage=nets, retrain=settings.retraining.epochs)


def num_rows(settings: Settings) -> int:
    """Epochs of a search and, after them, the most nets that its stages train."""
    epochs, best = settings.search.epochs, settings.best
    if best is None:
        return epochs + most_trials(settings)
    beside = 2  # features standardised, classes weighted
    if best.plain.plain_only:
        return len(best.recipe.recipes) + beside + len(plain_architectures(settings)) - 1
    teaching, pruning = best.teaching, best.pruning
    names = best.recipe.recipes
    recipes = 2 * (len(names) + beside) + teaching.teachers if len(names) > 1 else beside
    regressions = 1 + len(best.cleaning.clean_shares)
    wider = teaching.teachers if teaching.teacher_hidden > 0 else 0
    cuts = len(best.edges.edge_rankings) + len(best.edges.edge_shares)
    pruned = (best.student.students + len(pruning.prune_candidates)) * (1 + len(pruning.size_steps))
    with_labels = best.labels.label_propagation and best.labels.serves == "own"
    labels = teaching.teachers + 1 if with_labels else 0
    survivors = max(teaching.teachers, best.student.students)
    teachers = best.candidates.candidates + (wider or survivors) + int(teaching.knn > 0)
    level = (4 + len(best.plain.plain)) * best.student.level
    students = best.student.students + 1 + cuts + pruned * bool(pruning.size_steps) + level + labels
    return epochs + recipes + regressions + teachers + students
