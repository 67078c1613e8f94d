"""The history of a run, one row per epoch: as CSV, read back, and as a drawing."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path

from gassip.draw.chart import Panel, Place, Series, panel
from gassip.draw.scale import per_cent
from gassip.draw.svg import document, element
from gassip.errors import GassipError
from gassip.runs.format import csv_text, read_file

FILE = "history.csv"
TEXTS = ("phase", "stage", "architecture")  # columns of words
History = Sequence[Mapping[str, float | str]]


def history_csv(history: History) -> str:
    """One line per epoch, the columns in the order of their first appearance, `seconds` last."""
    names = list(dict.fromkeys(name for row in history for name in row if name != "seconds"))
    rows = ({k: "" if value != value else value for k, value in row.items()} for row in history)
    return csv_text([*names, "seconds"], rows)


def history_svg(history: History, about: str = "", best_epoch: int | None = None) -> bytes:
    """The epochs of the search, the trainings of its stages, and the epochs of retraining, each in
    panels of their own."""
    panels = [data for data in panels_of(history, best_epoch) if data.series]
    columns = min(3, max(1, len(panels)))
    width, height, head = 350.0, 240.0, 34.0
    parts = [element("text", text=about, class_="title", x=14, y=22)]
    for at, data in enumerate(panels):
        row, column = divmod(at, columns)
        place = Place(left=12 + column * width, top=head + row * height, width=width - 14)
        parts.append(panel(data, place))
    rows = -(-len(panels) // columns)
    return document(parts, columns * width + 12, head + rows * height, about or "history of a run")


def panels_of(history: History, best_epoch: int | None = None) -> list[Panel]:
    """Epochs of the search, trainings, epochs of retraining; a panel without series has no data."""
    epochs = [row for row in history if row["phase"] == "search" and "stage" not in row]
    trained = [row for row in history if row["phase"] == "search" and "stage" in row]
    again = [row for row in history if row["phase"] == "retrain"]
    best = [] if best_epoch is None or not again else [(float(best_epoch), f"best: {best_epoch}")]
    return [
        loss_panel("Search: loss", epochs),
        score_panel("Search: validation score", epochs),
        kept_panel(epochs),
        trainings_panel(trained),
        loss_panel("Retraining: loss", again, best),
        score_panel("Retraining: validation score", again, best),
    ]


def loss_panel(title: str, rows: History, marks: Sequence[tuple[float, str]] = ()) -> Panel:
    curves = [curve(rows, "train_loss", "training", 1), curve(rows, "val_loss", "validation", 2)]
    drawn = [series for series in curves if series.x]
    return Panel(title=title, below="epoch", series=drawn, marks=marks)


def score_panel(title: str, rows: History, marks: Sequence[tuple[float, str]] = ()) -> Panel:
    scores = curve(rows, "val_score", "validation", 2)
    drawn = [scores] if scores.x else []
    return Panel(title=title, unit="per cent", below="epoch", series=drawn, marks=marks,
                 form_y=per_cent)  # fmt: skip


def kept_panel(rows: History) -> Panel:
    """What the search would keep if it ended, and the entropy of α in parts of its first."""
    names = {"weights_kept": "weights", "edges_kept": "edges", "alpha_entropy": "entropy of α"}
    curves = [curve(rows, name, text, at) for at, (name, text) in enumerate(names.items(), 1)]
    entropy = curves[-1]
    if entropy.x and entropy.y[0]:
        curves[-1] = replace(entropy, y=[value / entropy.y[0] for value in entropy.y], dashed=True)
    return Panel(title="Search: would keep", unit="per cent", below="epoch",
                 series=[series for series in curves if series.x], form_y=per_cent)  # fmt: skip


def trainings_panel(rows: History) -> Panel:
    """One point for each net that a stage trained; the first and the best of a stage are named."""
    scored = [row for row in rows if "val_score" in row]
    stages = list(dict.fromkeys(str(row["stage"]) for row in scored))
    numbers = {id(row): at for at, row in enumerate(scored, 1)}
    drawn = []
    for colour, stage in enumerate(stages, 1):
        trained = [row for row in scored if row["stage"] == stage]
        best = max(trained, key=lambda row: float(row["val_score"]))
        drawn.append(
            Series(
                name=stage,
                x=[float(numbers[id(row)]) for row in trained],
                y=[float(row["val_score"]) for row in trained],
                colour=colour,
                line=False,
                size=3.0,
                names=[stage if row is best else "" for row in trained],
                tips=[training_tip(row) for row in trained],
            )
        )
    return Panel(title="Trainings: validation score", unit="per cent", below="training",
                 series=drawn, form_y=per_cent)  # fmt: skip


def training_tip(row: Mapping[str, float | str]) -> str:
    score = f"{100 * float(row['val_score']):.2f} %"
    return f"{row['stage']}: {row.get('architecture', '')}, {score}"


def curve(rows: History, column: str, name: str, colour: int) -> Series:
    """One column over the epochs; where it was not measured there is no point."""
    known = [row for row in rows if column in row and isfinite(float(row[column]))]
    at = [float(row["epoch"]) for row in known]
    return Series(name=name, x=at, y=[float(row[column]) for row in known], colour=colour)


def read_history(folder: Path, meta: Mapping[str, object]) -> list[dict[str, float | str]]:
    """Every row, search and retraining; an empty cell is left out."""
    content = read_file(folder, FILE, meta)
    try:
        rows = csv.DictReader(io.StringIO(content.decode()), strict=True)
        return [_row(row) for row in rows]
    except (ValueError, TypeError, AttributeError, csv.Error) as error:
        raise GassipError(f"{folder / FILE} is not the history of a run ({error})") from error


def _row(cells: Mapping[str, str]) -> dict[str, float | str]:
    row = {name: _cell(name, text) for name, text in cells.items() if text}
    if "phase" not in row:
        raise ValueError("a row names no phase")
    return row


def _cell(name: str, text: str) -> float | str:
    if name in TEXTS:
        return text
    return int(text) if name == "epoch" else float(text)


def of_search(history: Iterable[Mapping[str, float | str]]) -> list[dict[str, float | str]]:
    """The rows of the search as it made them, without their phase."""
    searched = (row for row in history if row["phase"] == "search")
    return [{name: value for name, value in row.items() if name != "phase"} for row in searched]
