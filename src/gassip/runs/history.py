"""The history of a run, one row per epoch: as CSV, read back, and as a drawing."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from gassip.errors import GassipError

History = Sequence[Mapping[str, float | str]]


def history_csv(history: History) -> str:
    """One line per epoch, the columns in the order of their first appearance, `seconds` last."""
    names = list(dict.fromkeys(name for row in history for name in row if name != "seconds"))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, "seconds"], restval="", lineterminator="\n")
    writer.writeheader()
    for row in history:
        writer.writerow({name: "" if value != value else value for name, value in row.items()})
    return text.getvalue()


def history_svg(history: History) -> bytes:
    """Losses, validation score, and what would be kept, over the epochs of search and
    retraining."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    panels = {
        "loss": ("train_loss", "val_loss"),
        "validation score": ("val_score",),
        "share kept; entropy of α": ("weights_kept", "edges_kept", "alpha_entropy"),
    }
    with matplotlib.rc_context({"svg.hashsalt": "gassip", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(10, 3), layout="constrained")
        axes = figure.subplots(1, len(panels))
        for axis, (title, names) in zip(axes, panels.items(), strict=True):
            for phase, style in (("search", "-"), ("retrain", ":")):
                for at, name in enumerate(names):
                    rows = [row for row in history if row["phase"] == phase and name in row]
                    label = f"{name} ({phase})" if rows else None
                    values = [float(row[name]) for row in rows]
                    axis.plot(
                        [float(row["epoch"]) for row in rows],
                        values,
                        style,
                        color=f"C{at}",
                        lw=1,
                        label=label,
                    )
            axis.set(title=title, xlabel="epoch")
            if axis.get_legend_handles_labels()[0]:
                axis.legend(frameon=False)
        drawn = io.BytesIO()
        FigureCanvasSVG(figure).print_svg(drawn, metadata={"Date": None})
    return drawn.getvalue()


def read_history(path: Path, content: bytes) -> list[dict[str, float | str]]:
    """The rows of the search, as it wrote them; an empty cell is left out."""
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode()), strict=True))
        searched = [row for row in rows if row["phase"] == "search"]
        return [
            {name: _cell(name, text) for name, text in row.items() if name != "phase" and text}
            for row in searched
        ]
    except (ValueError, KeyError, csv.Error) as error:
        raise GassipError(f"{path} is not the history of a run ({error})") from error


def _cell(name: str, text: str) -> float | str:
    if name in ("architecture", "stage"):
        return text
    return int(text) if name == "epoch" else float(text)
