"""Golden bits: sha256 of every tensor of what a search hands over and of the net trained from it.

    python -m tests.golden           compare with tests/golden.json
    python -m tests.golden --write   write it anew, after a change of numbers on purpose

Presets `paper` and `best`, three small graphs (words, one-way edges, dense features that edges
mislead), with and without a budget. Bits follow from the processor and from library versions too:
the file holds those of several processors, each under its name. Bits that change on purpose are
written on one of them, and those of the others leave the file.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from scipy import sparse as sp
from torch import Tensor

from gassip.baselines.gassip import GassipBest, GassipMethod
from gassip.bench.machine import cpu_model
from gassip.budget.candidates import retrain_best, search_within
from gassip.budget.fit import Budget
from gassip.graph.graph import Graph
from gassip.settings import preset
from gassip.train.plan import Plan, Solution

FILE = Path(__file__).parent / "golden.json"
Bits = dict[str, dict[str, str]]  # by case and name
SHORT: dict[str, Any] = {"hidden": 8, "epochs": 6, "warmup_epochs": 3, "retrain_epochs": 12}
BEST: dict[str, Any] = {"trial_epochs": 6, "prune_epochs": 20, "consistency_ramp": 4}
BUDGETS: dict[str, dict[str, Any]] = {
    "free": {},
    "params": {"max_params": "25%", "max_edges": "80%"},
    "macs": {"max_macs": "30%"},
}


def blocks(
    nodes: int, classes: int, degree: int, within: float, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Labels, and edges of which a share `within` joins nodes of one class."""
    y = np.arange(nodes) % classes
    source = rng.integers(0, nodes, degree * nodes)
    same = (rng.integers(0, nodes // classes, source.size) * classes + y[source]) % nodes
    target = np.where(rng.random(source.size) < within, same, rng.integers(0, nodes, source.size))
    return y, np.stack([source, target])


def masks(nodes: int, train: float, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    draw = rng.random(nodes)
    return draw < train, (draw >= train) & (draw < train + 0.3), draw >= train + 0.3


def words() -> Graph:
    """A bag of words, few labels, edges both ways."""
    rng = np.random.default_rng(1)
    y, edges = blocks(300, 4, 3, 0.8, rng)
    x = (rng.random((300, 80)) < np.where(np.arange(80) % 4 == y[:, None], 0.12, 0.03)).astype(
        np.float32
    )
    return Graph.build(
        sp.csr_array(x), edges, y, masks=masks(300, 0.09, rng), undirected=True, name="words"
    )


def one_way() -> Graph:
    """Dense, faint features; one-way edges; many labels, so that these tell something beside the
    net."""
    rng = np.random.default_rng(2)
    y, edges = blocks(600, 3, 2, 0.7, rng)
    x = rng.normal(0, 2.0, (600, 10)) + np.eye(3, 10)[y]
    return Graph.build(x.astype(np.float32), edges, y, masks=masks(600, 0.5, rng), name="one-way")


def misleading() -> Graph:
    """Edges at random, features that tell: a net does better without edges."""
    rng = np.random.default_rng(3)
    y, edges = blocks(400, 3, 8, 0.0, rng)
    x = rng.normal(0, 0.7, (400, 12)) + 1.2 * np.eye(3, 12)[y]
    weight = rng.uniform(0.5, 2.0, edges.shape[1])
    given = masks(400, 0.4, rng)
    return Graph.build(
        x.astype(np.float32),
        edges,
        y,
        masks=given,
        undirected=True,
        edge_weight=weight,
        name="misleading",
    )


GRAPHS = {"words": words, "one-way": one_way, "misleading": misleading}
OWN: dict[str, dict[str, Any]] = {
    "words": {"prune_epochs": 150, "retrain_epochs": 8, "size_share": 0.06, "teacher_hidden": 64},
    "one-way": {"size_share": 1.0, "heads": 2, "for": "own"},
    "misleading": {"layers": 3},
}


def solve(name: str, graph: str, budget: str) -> tuple[Graph, Plan, Solution]:
    given = Budget(**BUDGETS[budget])
    made = GRAPHS[graph]()
    settings = preset(name, made, SHORT | BEST | OWN[graph] if name == "best" else SHORT)
    founds = search_within(made, settings, given, seed=1)
    return made, *retrain_best(made, founds, given, seed=1)


def digest(value: Tensor | None) -> str:
    if value is None:
        return "none"
    plain = value.detach().cpu().contiguous()
    head = f"{plain.dtype} {tuple(plain.shape)} ".encode()
    return hashlib.sha256(head + plain.view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()[
        :16
    ]


def bits(found: Plan, solution: Solution) -> dict[str, str]:
    named: dict[str, Tensor | None] = {"edge_keep": found.edge_keep, "edge_mask": found.edge_mask}
    named |= {"feature_index": found.feature_index, "teacher": found.teacher}
    named |= {f"weight_keep.{l}": keep for l, keep in enumerate(found.weight_keep)}
    named |= {f"first.{k}": v for k, v in found.first_weights.items()}
    named |= {f"last.{k}": v for k, v in found.last_weights.items()}
    named |= {f"net.{k}": v for k, v in solution.model.state_dict().items()}
    named |= {"edge_index": solution.graph.edge_index, "edge_weight": solution.graph.edge_weight}
    out = {name: digest(value) for name, value in named.items()}
    out["architecture"] = (
        f"{found.architecture} {found.architecture.hidden} {found.architecture.heads}"
    )
    out["scores"] = json.dumps(solution.scores, sort_keys=True)
    out["best_epoch"] = str(solution.best_epoch)
    out["rows"] = str(len(found.history))
    return out


def circumstances() -> dict[str, str]:
    """What bits follow from besides the code."""
    versions = {
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
    instructions = torch.backends.cpu.get_cpu_capability()
    return versions | {"cpu": f"{cpu_model()}, {instructions}"}


VERSIONS = {"paper": GassipMethod.version, "best": GassipBest.version}


def cases() -> list[tuple[str, str, str]]:
    return [
        (name, graph, budget)
        for name in ("paper", "best")
        for graph in GRAPHS
        for budget in BUDGETS
    ]


def differences(expected: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    return [
        name
        for name in sorted(expected.keys() | given.keys())
        if expected.get(name) != given.get(name)
    ]


def of_preset(all_bits: Bits, name: str) -> Bits:
    """The cases of one preset."""
    return {case: bits for case, bits in all_bits.items() if case.startswith(f"{name} ")}


def here(places: list[dict[str, Any]]) -> Bits:
    """The stored bits of these circumstances; none if they are of other ones."""
    now = circumstances()
    return next((place["bits"] for place in places if place["on"] == now), {})


def write(all_bits: Bits) -> int:
    """golden.json anew. Records carry the version of their method: it is raised with the bits."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    before = here(stored["places"])
    for name, version in VERSIONS.items():
        changed = bool(before) and of_preset(before, name) != of_preset(all_bits, name)
        if changed and stored["versions"][name] == version:
            print(f"bits of {name} differ: raise its version (baselines/gassip.py) first")
            return 1
    now = circumstances()
    same = stored["versions"] == VERSIONS and before in ({}, all_bits)
    others = [place for place in stored["places"] if same and place["on"] != now]
    places = [*others, {"on": now, "bits": all_bits}]
    content = {"versions": VERSIONS, "places": places}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def main() -> int:
    torch.set_num_threads(1)
    all_bits = {}
    for case in cases():
        _, found, solution = solve(*case)
        all_bits[" ".join(case)] = bits(found, solution)
        print(*case, found.architecture, solution.accuracy.get("val"), flush=True)
    if "--write" in sys.argv:
        return write(all_bits)
    stored = here(json.loads(FILE.read_text(encoding="utf-8"))["places"])
    if not stored:
        print("no bits are stored of this processor and these libraries")
        return 1
    wrong = {
        case: differences(stored[case], bits)
        for case, bits in all_bits.items()
        if stored[case] != bits
    }
    print("equal" if not wrong else json.dumps(wrong, indent=1))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
