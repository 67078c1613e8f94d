"""Labels and splits of a graph, checked; numpy alone.

    y        whole numbers, texts, one-hot rows, [N] or [N, 1]   ->   0..C-1, -1 where unlabelled
    masks    all three, some, or none                            ->   three disjoint masks [N]

Shapes: N nodes, C classes.
"""

from collections.abc import Sequence

import numpy as np

from gassip.errors import GassipError
from gassip.graph.columns import is_missing, repeated
from gassip.graph.parts import SPLITS

CARVED = 0.25  # share of the training nodes of each class that become validation nodes


def class_labels(
    y: np.ndarray, n: int, class_names: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as 0..C-1 with -1 for unlabelled, and the name of each class (its own number where
    none is given)."""
    y = y.reshape(-1) if y.ndim == 2 and 1 in y.shape else y
    if y.ndim == 2 and y.shape[0] == n:
        y, class_names = _of_one_hot(y), class_names or [str(c) for c in range(y.shape[1])]
    if y.ndim != 1:
        raise GassipError(f"y must hold one label per node, not shape {list(y.shape)}")
    if y.size != n:
        raise GassipError(
            f"y has {y.size} labels, but x has {n} rows; one label per node, -1 where unknown"
        )
    if y.dtype.kind in "UO" and class_names is None:
        y, class_names = _of_texts(y)
    y = _whole(y)
    if (y < -1).any():
        raise GassipError(
            f"y holds label {int(y.min())}; use -1 for unlabelled nodes and 0, 1, ... for classes"
        )
    if class_names is not None:
        if y.max() >= len(class_names):
            raise GassipError(
                f"y holds label {int(y.max())}, but there are only {len(class_names)} class names"
            )
        labels, names = y, tuple(str(c) for c in class_names)
    else:
        values = np.unique(y[y >= 0])
        labels = np.where(y >= 0, np.searchsorted(values, y), -1)
        names = tuple(str(v) for v in values)
    if len(names) > n:
        raise GassipError(f"there are {len(names)} classes, but {n} nodes; name those that occur")
    if twice := repeated(names):
        raise GassipError(f"class_names holds {twice[:40]!r} twice; give each class its own name")
    _check_text(names)
    if len(names) < 2:
        raise GassipError(f"y holds {len(names)} class; a classifier needs at least two")
    return labels, names


def _check_text(names: Sequence[str]) -> None:
    """Refuse a name that no file can hold: half of a surrogate pair."""
    for name in names:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise GassipError(f"class name {name[:40]!r} is not a valid text; give another")


def _whole(y: np.ndarray) -> np.ndarray:
    """int64; NaN is unlabelled."""
    if np.issubdtype(y.dtype, np.floating):
        y = np.where(np.isnan(y), -1, y).astype(np.float64)
        if (y != np.round(y)).any() or (np.abs(y) > 2**53).any():
            raise GassipError(
                "y holds fractions or infinite values; labels must be whole numbers (class ids): "
                "regression is not supported"
            )
    elif y.dtype.kind == "u" and y.size and int(y.max()) > np.iinfo(np.int64).max:
        raise GassipError(
            f"y holds label {int(y.max())}; use -1 for unlabelled nodes and 0, 1, ... for classes"
        )
    elif y.dtype.kind not in "iub":
        raise GassipError(f"y must hold whole numbers (class ids) or texts, not {y.dtype}")
    return y.astype(np.int64)


def _of_one_hot(y: np.ndarray) -> np.ndarray:
    """The column of the one 1 in each row, -1 for a row of zeros."""
    if y.dtype.kind not in "fiub" or not np.isin(y, (0, 1)).all():
        raise GassipError(
            f"y has shape {list(y.shape)} and holds other values than 0 and 1: give one class per "
            f"node; several targets and regression are not supported"
        )
    count = y.sum(1)
    if (count > 1).any():
        node = int(np.argmax(count > 1))
        raise GassipError(
            f"y marks {int(count[node])} classes for node {node}: multi-label targets are not "
            f"supported; give one class per node"
        )
    return np.where(count == 1, y.argmax(1), -1)


def _of_texts(y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class names by number or letter; None, NaN and "" are unlabelled."""
    if not all(value is None or isinstance(value, (str, int, float)) for value in y):
        raise GassipError("y holds Python objects; labels must be texts or whole numbers")
    texts = ["" if value is None else str(value) for value in y]
    return class_numbers(["" if is_missing(text) else text for text in texts], "y")


def class_numbers(texts: Sequence[str], where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as 0..C-1, -1 for "", and the class names: numbers by value, then texts by letter."""
    values = {text: _as_number(text) for text in set(texts) - {""}}
    numbers = {text: value for text, value in values.items() if value is not None}
    if numbers and len(numbers) == len(values):
        if fraction := next((text for text in texts if numbers.get(text, 0.0) % 1), None):
            raise GassipError(
                f"{where} holds {fraction[:40]!r}: regression is not supported; name classes by "
                f"texts or whole numbers, for example ranges"
            )
        # 1.0 is 1; -1 is unlabelled
        plain = {text: "" if value == -1 else str(int(value)) for text, value in numbers.items()}
        texts = [plain.get(text, "") for text in texts]
    names = sorted(set(texts) - {""}, key=_class_order)
    number = {name: at for at, name in enumerate(names)} | {"": -1}
    return np.array([number[text] for text in texts], dtype=np.int64), tuple(names)


def _class_order(text: str) -> tuple[bool, int, str]:
    return (not text.isdecimal(), len(text) * text.isdecimal(), text)


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 2**53 and "_" not in text else None


# Splits


def complete_masks(
    given: Sequence[np.ndarray | None],
    labels: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    said: list[str],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three checked masks; those not given are drawn by `seed`. What was drawn is `said`."""
    train, val, test = given
    if train is None and val is None and test is None:
        train, val, test = stratified_split(labels, seed=seed)
        said.append(f"no masks given: stratified 50/25/25 split drawn with seed {seed}")
        if not val.any():
            raise GassipError(
                "no class has enough labelled nodes to draw a validation set (3 do); give the masks"
            )
    if train is None:
        there = " and ".join(
            f"{split}_mask" for split, mask in zip(SPLITS, given, strict=True) if mask is not None
        )
        raise GassipError(f"there is {there} but no train_mask; say which nodes are for training")
    if test is None:
        test = np.zeros(labels.size, dtype=bool)
        said.append("no test nodes given: there is no test score")
    if val is None:
        train, val = carve_validation(_mask("train", train, labels), labels, seed=seed)
        said.append(
            f"no validation nodes given: {int(val.sum())} of the training nodes, a quarter of each "
            f"class, drawn with seed {seed}"
        )
    return _checked_masks((train, val, test), labels, names)


def stratified_split(
    y: np.ndarray, *, seed: int, train: float = 0.5, val: float = 0.25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boolean masks drawn class by class among the labelled nodes; every class gets a training node
    first."""
    if seed < 0:
        raise GassipError(f"seed must be 0 or more, not {seed}")
    rng = np.random.default_rng(seed)
    where = np.full(y.size, -1)
    for label in np.unique(y[y >= 0]):
        nodes = rng.permutation(np.flatnonzero(y == label))
        first = max(1, round(train * nodes.size))
        second = first + round(val * nodes.size)
        where[nodes[:first]], where[nodes[first:second]], where[nodes[second:]] = 0, 1, 2
    return where == 0, where == 1, where == 2


def carve_validation(
    train: np.ndarray, labels: np.ndarray, *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation masks: a quarter of each class is for validation, one node stays."""
    rng = np.random.default_rng(seed)
    val = np.zeros(labels.size, dtype=bool)
    for label in np.unique(labels[train]):
        nodes = rng.permutation(np.flatnonzero(train & (labels == label)))
        val[nodes[: min(nodes.size - 1, max(1, round(CARVED * nodes.size)))]] = True
    if not val.any():
        raise GassipError(
            "no class has two training nodes, so none can be for validation; give val_mask"
        )
    return train & ~val, val


def _mask(split: str, mask: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[N] bool over labelled nodes."""
    if mask.ndim != 1:
        raise GassipError(
            f"{split}_mask has shape {list(mask.shape)}, not one entry per node; pick one "
            f"split, e.g. mask[:, 0]"
        )
    if mask.size != labels.size:
        raise GassipError(f"{split}_mask has {mask.size} entries, but x has {labels.size} rows")
    if mask.dtype.kind not in "biuf":
        raise GassipError(f"{split}_mask must hold True/False, not {str(mask.dtype)[:40]}")
    if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
        raise GassipError(f"{split}_mask must hold True/False, one per node")
    return mask.astype(bool) & (labels >= 0)


def _checked_masks(
    masks: Sequence[np.ndarray], labels: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three disjoint boolean masks over labelled nodes, with a training node for every class."""
    out = [_mask(split, mask, labels) for split, mask in zip(SPLITS, masks, strict=True)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        both = np.flatnonzero(out[a] & out[b])
        if both.size:
            raise GassipError(
                f"{SPLITS[a]}_mask and {SPLITS[b]}_mask overlap in {both.size} nodes, the first "
                f"is node {both[0]}"
            )
    for split, mask in zip(SPLITS[:2], out, strict=False):
        if not mask.any():
            raise GassipError(f"{split}_mask marks no labelled node")
    counts = np.bincount(labels[out[0]], minlength=len(names))
    empty = [names[c] for c in np.flatnonzero(counts == 0)]
    if empty:
        raise GassipError(
            f"class {empty[0]} has no training node ({len(empty)} such); add one or merge the class"
        )
    return out[0], out[1], out[2]
