"""The leaderboard: every net that a search has trained, best on validation first.

leaderboard.json in a run's folder is a list of objects, in the order of the board:

    name          stage and number of the training, such as "student 1", after the round of a search
                  with a time limit, such as "fast: plain 0"; "retrained" is the net of the run,
                  trained once more with the run's seed; of a search on rows "net of the run"
    kind          plain, recipe, candidate, teacher, student or final
    architecture  operations of the layers
    val_score     validation score by the metric of the run
    weights       stored parameters
    edges         directed edges that the net reads
    macs          multiply-adds of one pass over the whole graph
    ms            milliseconds of such a pass in torch, measured in the search
    seconds       of training
    taken         whether this net is the one that was taken; exactly one is
    reason        of the one taken: why

Of nets with equal scores the one with fewer weights comes first, then the one with fewer
multiply-adds. A number that was not measured is null. Needs no torch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite

from gassip.errors import GassipError

FILE = "leaderboard.json"
NET_OF_ROWS = "net of the run"  # as it was trained, judged on all validation nodes
KINDS = {
    "plain": "plain",
    "recipe": "recipe",
    "candidate": "candidate",
    "teacher": "teacher",
    "kNN teacher": "teacher",
}  # by how the name of a training begins; all others are students


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One net of the board."""

    name: str
    kind: str
    architecture: str
    val_score: float | None
    weights: int | None = None
    edges: int | None = None
    macs: int | None = None
    ms: float | None = None
    seconds: float | None = None
    taken: bool = False
    reason: str = ""


def kind_of(name: str) -> str:
    """What a training was for, by its name."""
    name = name.rpartition(": ")[2]  # without the round
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), "student")


def ranked(board: Iterable[Standing]) -> list[Standing]:
    """Best on validation first; ties go to the smaller."""
    return sorted(board, key=_order)


def _order(row: Standing) -> tuple[float, float, float]:
    score = -inf if row.val_score is None or row.val_score != row.val_score else row.val_score
    weights = inf if row.weights is None else row.weights
    return -score, weights, inf if row.macs is None else row.macs


def with_taken(board: Iterable[Standing], name: str, reason: str = "") -> tuple[Standing, ...]:
    """The board with the net of that name marked, and why it was taken."""
    board = list(board)
    chosen = next((row for row in board if row.name == name), None)
    reason = reason or (why(chosen, board) if chosen is not None else "")
    return tuple(
        replace(row, taken=row is chosen, reason=reason if row is chosen else "") for row in board
    )


def why(student: Standing, board: Iterable[Standing]) -> str:
    """The rule by which a student is taken, as it came out."""
    rivals = [row for row in board if row.kind == "student" and row is not student]
    better = [row for row in rivals if _order(row)[0] < _order(student)[0]]
    if not rivals:
        return "the only student"
    if not better:
        return f"no student of {len(rivals) + 1} has a higher validation score"
    return f"{len(better)} with a higher score, not beyond chance; the one that came first stays"


def final(
    board: Iterable[Standing], net: Standing, reason: str = "what the search found"
) -> list[Standing]:
    """The whole board, with the net that was retrained; marked if no other is."""
    board = list(board)
    if not any(row.taken for row in board):
        net = replace(net, taken=True, reason=reason)
    return ranked([*board, net])


def to_rows(board: Iterable[Standing]) -> list[dict[str, object]]:
    """As strict JSON has it."""
    return [
        {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in asdict(row).items()}
        for row in board
    ]


def from_rows(rows: object, where: str) -> tuple[Standing, ...]:
    """The inverse; anything else is refused by name."""
    if not isinstance(rows, list):
        raise GassipError(f"{where} is not a list of nets")
    return tuple(_standing(row, where) for row in rows)


_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "kind", "architecture", "reason"), (str,)),
    **dict.fromkeys(("val_score", "ms", "seconds"), (int, float, type(None))),
    **dict.fromkeys(("weights", "edges", "macs"), (int, type(None))),
    "taken": (bool,),
}


def _standing(row: object, where: str) -> Standing:
    if not isinstance(row, Mapping) or row.keys() != _TYPES.keys():
        raise GassipError(f"{where} does not hold nets: {str(row)[:40]!r}")
    for name, kinds in _TYPES.items():
        mistaken = isinstance(row[name], bool) and bool not in kinds
        if not isinstance(row[name], kinds) or mistaken:
            raise GassipError(f"{where}: {name} is {str(row[name])[:40]!r}")
    return Standing(**row)
