"""The runs that are asked for: a method with its settings for a graph, once for each seed.

Settings come in this order, the later ones first: what the call names, what `gassip tune` chose on
this graph, the method's own for a graph of this size.
"""

from collections.abc import Mapping
from dataclasses import replace

from gassip.bench import tuned
from gassip.bench.records import Run
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.methods import Method, Searcher, changed, entry, parsed, plain_settings


def method_for(
    run: Run,
    graph: Graph,
    given: Mapping[str, str],
    *,
    untuned: bool = False,
    inputs: str | None = None,
) -> tuple[Method, bool]:
    """The run's method with its settings, and whether these are the tuned ones; `given` as texts,
    `inputs` the fingerprint of an own graph."""
    chosen = {} if untuned else tuned.chosen_for(run.dataset, run.method, inputs)
    method = changed(entry(run.method).make(graph), chosen)
    return changed(method, parsed(method, given)), bool(chosen) and not given


def seeded(run: Run, method: Method, *, seed: int, searches: int, trainings: int) -> list[Run]:
    """`searches` by `trainings` runs with the settings of the method, which has a search of its
    own if there is more than one."""
    if searches > 1 and not isinstance(method, Searcher):
        raise GassipError(f"{run.method} has no search apart from its training; use --seeds alone")
    first = replace(run, settings=plain_settings(method))
    search_seeds: list[int | None] = [None]
    if isinstance(method, Searcher):
        search_seeds = [seed + s for s in range(searches)]
    seeds = [seed + r for r in range(trainings)]
    return [replace(first, search_seed=s, retrain_seed=r) for s in search_seeds for r in seeds]
