"""What a search measures of its net besides the scores, and how the summary tells it.

inductive    the score on validation nodes held out with their edges (gassip.train.inductive)
constant     the score of naming the largest class for every validation node
latency_ms   one inference on the run's graph, if a budget bounds it
speed        one inference, and one of a GCN with 64 hidden units (gassip.budget.speed)
memory_mb    the highest memory of the process by the end of each stage
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gassip.best.rules import FEW_WEIGHTS
from gassip.operations import gcn_weights

if TYPE_CHECKING:
    from gassip.budget.budget import Budget
    from gassip.budget.timed import Found
    from gassip.graph.graph import Graph
    from gassip.metrics import Metric
    from gassip.train.plan import Decision

Row = tuple[str, str]


class Memory:
    """A listener that notes the highest memory of this process, in MB, at the end of each stage."""

    def __init__(self) -> None:
        self.by_stage = dict[str, float]()

    def __call__(self, event: Mapping[str, float | str]) -> None:
        from gassip.bench.machine import peak_mb
        from gassip.report.about import stage_name

        if event["phase"] != "done" and (peak := peak_mb()) is not None:
            self.by_stage[stage_name(event)] = peak


def measure(
    graph: "Graph",
    found: "Found",
    budget: "Budget",
    *,
    seed: int,
    metric: "Metric",
    inductive: bool,
) -> dict[str, object]:
    """For meta.json."""
    from gassip.budget.limits import latency_ms
    from gassip.budget.speed import beside_gcn
    from gassip.metrics import constant_score
    from gassip.nn.net import Net
    from gassip.train.inductive import inductive_score

    solution = found.solution
    out: dict[str, object] = {"constant": constant_score(graph, metric)}
    if (made_for := weighed(found.plan.decisions)) is not None:
        out["serves"] = made_for
    if inductive:
        made = found.inductive
        if made is None:
            made = inductive_score(graph, found.plan, solution, seed=seed, metric=metric)
        out["inductive"] = None if made is None else made.to_json()
    if isinstance(solution.model, Net):
        if budget.max_latency_ms is not None:
            out["latency_ms"] = latency_ms(solution.model, solution.graph)
        whole = found.plan.on(graph, all_edges=True)
        out["speed"] = beside_gcn(solution.model, solution.graph, whole)
    return out


def weighed(decisions: "Sequence[Decision]") -> dict[str, object] | None:
    """What was weighed for the graphs that the net serves (best/serves.py)."""
    from gassip.best.serves import STAGE

    made = next((decision for decision in decisions if decision.stage == STAGE), None)
    if made is None:
        return None
    kept = ("name", "score", "new_nodes")
    tried = [{key: row[key] for key in kept if key in row} for row in made.tried]
    return {"taken": made.taken, "tried": tried}


def serves_rows(meta: Mapping[str, Any]) -> list[Row]:
    """Both nets that were weighed, with both figures."""
    tried = (meta.get("serves") or {}).get("tried", [])
    out = list[Row]()
    for row in tried:
        figures = [f"val {row['score']:.4f}"] if "score" in row else []
        figures += [f"new nodes {row['new_nodes']:.4f}"] if "new_nodes" in row else []
        mark = " (taken)" if row["name"] == meta["serves"]["taken"] else ""
        out.append(("", f"{row['name']}: {', '.join(figures)}{mark}"))
    return out


def useless(meta: Mapping[str, Any]) -> str | None:
    """A line if the net is no better than the largest class alone."""
    constant = meta.get("constant")
    value = meta["scores"].get(meta["metric"], {}).get("val")
    if constant is None or value is None or value > constant:
        return None
    names = ", ".join(
        f"--{name.replace('_', '-')} {amount}" for name, amount in meta["budget"].items()
    )
    remedy = f"; allow more than {names}" if names else ""
    return (
        f"the net is of no use: {meta['metric']} {value:.4f} on validation nodes, and the largest "
        f"class alone has {constant:.4f}{remedy}"
    )


def rows(meta: Mapping[str, Any]) -> list[Row]:
    """For the summary."""
    out = list[Row]()
    if made := meta.get("inductive"):
        what = f"val {made['score']:.4f} on {made['nodes']:,} nodes that training did not see"
        out.append(("new nodes", f"{what} (seen: {made['seen']:.4f})"))
    if (taken := meta.get("latency_ms")) is not None:
        out.append(
            (
                "latency",
                f"{taken:.3g} ms, measured here; {meta['budget']['max_latency_ms']} allowed",
            )
        )
    if line := useless(meta):
        out.append(("warning", line))
    return out


def of_reference(meta: Mapping[str, Any]) -> str:
    """The weights stored against a GCN-64's; with few features that has fewer than any student."""
    stored, gcn = meta["size"]["params"], gcn_weights(meta["features"], len(meta["class_names"]))
    if stored <= gcn:
        return f"{stored / gcn:.0%} of a GCN-64's"
    if stored > FEW_WEIGHTS:
        return f"{stored / gcn:.1f} times a GCN-64's"
    return f"few features: a GCN-64 has {gcn:,}, a student up to {FEW_WEIGHTS:,.0f}; --max-params"
