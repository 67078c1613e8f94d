"""What `gassip search` prints of a run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gassip.commands.measured import of_reference, serves_rows
from gassip.commands.measured import rows as measured_rows
from gassip.commands.summary import print_summary, score_rows, seconds_row, share

if TYPE_CHECKING:
    from gassip.runs.write import Meta


def summary(meta: "Meta") -> None:
    """The summary table."""
    size = meta["size"]
    rows = [
        ("architecture", " ‖ ".join(meta["architecture"])),
        *score_rows(meta["scores"]),
        ("weights kept", share(meta["weights_kept"], meta["weights_total"])),
        ("edges kept", share(meta["edges_kept"], meta["edges_total"])),
        ("stored", f"{size['params']:,} weights ({of_reference(meta)})"),
        ("", f"{size['bytes']:,} bytes   {size['macs']:,} multiply-adds"),
        *decided_rows(meta),
        *measured_rows(meta),
        seconds_row(meta["seconds"]),
        *(("note", note) for note in meta["notes"]),
    ]
    print_summary(f"{meta['dataset']}, preset {meta['preset']}, seed {meta['seed']}", rows)


def decided_rows(meta: "Meta") -> list[tuple[str, str]]:
    """What the search added to the net or changed in the graph, where it did."""
    rows = []
    if meta["symmetrised"]:
        rows.append(("direction", "edges are symmetrised"))
    if meta["recipe"].get("standardised"):
        rows.append(("features", "standardised by the net: mean 0, deviation 1"))
    if "weighted" in meta["source"]:
        used = meta["source"]["weighted"]
        rows.append(("edge weights", "used" if used else "left out: no gain on validation"))
    if meta["recipe"]["prune_to"]:
        rows.append(("pruning", f"to {meta['recipe']['prune_to']:,} weights in training"))
    if weight := meta["net"]["label_weight"]:
        rows.append(("label propagation", f"added to the logits with weight {weight:.2f}"))
        rows += [("", for_which_graphs(meta)), *serves_rows(meta)]
    return rows


def for_which_graphs(meta: "Meta") -> str:
    """What label propagation means for other graphs."""
    if meta["recipe"]["labels_in_training"]:
        return "in training too: on other graphs the net is worse (--for any)"
    return "on this graph alone; the net was trained without it, for any graph"


def next_steps(out: Path, *, report: bool = False) -> None:
    """What was written, and what to try next."""
    folder = shlex.quote(str(out))
    print(f"written to {out}")
    if report:
        print(f"look: {out / 'report.html'}")
    steps = [f"gassip evaluate {folder} --seeds 10", f"gassip predict {folder} --out labels.csv"]
    for at, step in enumerate(steps):
        print(f"{'next:' if at == 0 else '     '} {step}")
