"""Axes: a value to a place, and round ticks whose labels do not overlap.

linear   a + (v - low) / (high - low) (b - a)
log      the same of log10 v; ticks at 1, 2, 5 times a power of ten
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

FONT = 11.0  # px, of every text in a chart
LETTER = 0.58  # of the font size: how wide a letter is, on average and rounded up
Form = Callable[[float], str]


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high`, drawn from `start` to `end` (px)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (self._raw(number) for number in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def _raw(self, value: float) -> float:
        return log10(value) if self.log else value


def spanning(
    values: Sequence[float], start: float, end: float, *, log: bool = False, margin: float = 0.06
) -> Scale:
    """The scale of these values with a margin on both sides; of one value, or none, it is wide
    enough to be drawn."""
    known = [value for value in values if isfinite(value) and (value > 0 or not log)]
    low, high = (min(known), max(known)) if known else (1.0, 2.0)
    if log:
        wider = max((high / low) ** margin, 1.25)
        return Scale(low / wider, high * wider, start, end, log=True)
    spare = (high - low) * margin if high > low else abs(high) * 0.1 or 1.0
    return Scale(low - spare, high + spare, start, end)


def ticks(scale: Scale, form: Form, most: int = 6, *, upright: bool = False) -> list[float]:
    """Round values inside the scale, at most so many, their labels apart from each other."""
    for values in _finer_to_coarser(scale, most):
        inside = [value for value in values if scale.low <= value <= scale.high]
        if 2 <= len(inside) <= most and _apart([scale(v) for v in inside], inside, form, upright):
            return inside
    return [_middle(scale)]


def width(text: str) -> float:
    """About how many px a text takes."""
    return LETTER * FONT * len(text)


def _apart(places: list[float], values: list[float], form: Form, upright: bool) -> bool:
    """Whether neighbouring labels leave a gap; upright: they stand above each other."""
    need = [FONT * 1.3 if upright else width(form(value)) + FONT * 0.6 for value in values]
    gaps = [abs(b - a) for a, b in itertools.pairwise(places)]
    return all(gap >= (a + b) / 2 for gap, a, b in zip(gaps, need, need[1:], strict=False))


def _finer_to_coarser(scale: Scale, most: int) -> list[list[float]]:
    if not scale.log:
        return _rounds(scale, most)
    first, last = floor(log10(scale.low)), ceil(log10(scale.high))
    choices: list[list[float]] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        choices.append([f * 10.0**k for k in range(first, last + 1) for f in factors])
    for step in (2, 3, 4):
        choices.append([10.0**k for k in range(first, last + 1, step)])
    narrow = scale.high / scale.low < 10
    return [*(_rounds(scale, most) if narrow else []), *choices, *_rounds(scale, most)]


def _rounds(scale: Scale, most: int) -> list[list[float]]:
    """Multiples of 1, 2 and 5 times a power of ten, ever coarser."""
    span = scale.high - scale.low
    power = floor(log10(span / most)) if span > 0 else 0
    steps = [f * 10.0**k for k in range(power, power + 3) for f in (1.0, 2.0, 5.0)]
    return [_multiples(scale, step) for step in steps if span / step <= most + 1]


def _multiples(scale: Scale, step: float) -> list[float]:
    first, last = ceil(scale.low / step), floor(scale.high / step)
    return [round(k * step, 12) for k in range(first, last + 1)]


def _middle(scale: Scale) -> float:
    if scale.log:
        return float(f"{(scale.low * scale.high) ** 0.5:.2g}")
    return float(f"{(scale.low + scale.high) / 2:.3g}")


# How numbers are written


def plain(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def per_cent(value: float) -> str:
    """A share as per cent, without the sign, which the axis names."""
    return f"{100 * value:.4g}".replace("-", "−")


def short(value: float) -> str:
    """1,200 as 1.2k, 3,000,000 as 3M."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}"
