"""Values that mean nothing where they are put: arrays, cells, texts, JSON."""

import numpy as np

HUGE = 10**30


def arrays(n: int, edges: int) -> list[np.ndarray]:
    """Arrays of odd kinds, shapes and numbers, some of them pickled when saved."""
    shapes: list[tuple[int, ...]] = [(), (0,), (n,), (n, 1), (n, 3), (2, edges), (edges,), (2, 0)]
    numbers = [np.full(shape, value) for shape in shapes for value in (0.0, np.nan, -1e38, 1e300)]
    whole = [np.full(shape, value) for shape in shapes for value in (-1, 2**62)]
    kinds: list[np.dtype | str] = ["U3", "S3", "M8[D]", "m8[s]", "c16", "?", "u8", "f2", "O"]
    kinds.append(np.dtype([("a", "?"), ("b", "i4")]))
    odd = [np.zeros(shape, dtype=kind) for shape in ((n,), (n, 3), (2, edges)) for kind in kinds]
    top = [np.full(shape, 2**64 - 1, dtype=np.uint64) for shape in ((n,), (2, edges))]
    tall = [np.array(own) for own in ((n, 2**31 - 1), (-1, 6), (2**40, 6), (n, -1), (0, 0))]
    return [*numbers, *whole, *odd, *top, *tall, np.array(["\ud800", "a", "b"])]


CELLS = (
    "", " ", "NaN", "-1", "1_000", "1,5", "1e999", "-inf", "0x10", "true", "=1+1", "2020-13-45",
    "9" * 400, "é", "\ufeff", "a\nb", '"', "'", "\x00", "\ud7ff", "1.5.2", "None", "train ", "tset",
    "\t", "1e-400", "٣", "–1", "9999-12-31", "0001-01-01T00:00:00+14:00",
)  # fmt: skip

TEXTS = (
    *CELLS, "--", "-", "/", ".", "..", "~", "%s", "{}", "a/b", "//", "-5", "0", "1", "1.5", "1e9",
    "x" * 5000, "/dev/null", "/dev/full", "/proc/self/mem", "nan", "inf", "-inf", "9" * 5000, "a,b",
    "1,,2", "GCNConv", "best", "25%", "0%", "1kB", "on", "[]", "ﬁ", "\u2028", "$HOME", "*",
)  # fmt: skip

JSON: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, HUGE, -HUGE, 0.5, 1e308, "", "a", "\ud800", [],
    [0], [-1], [None], ["a", "b"], [[1]], [HUGE], {}, {"a": 1}, {"kind": "file"}, [1e400],
)  # fmt: skip
