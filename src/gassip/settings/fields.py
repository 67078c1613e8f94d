"""What a setting is: a dataclass field with a default, a help text and a range beside it."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import isinf
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gassip.errors import GassipError


@dataclass(frozen=True)
class Range:
    """Which numbers a setting takes, and the line for those it does not."""

    text: str
    holds: Callable[[float], bool]


POSITIVE = Range("it must be above 0", lambda value: value > 0)
POSITIVE_OR_INFINITE = Range("it must be above 0", lambda value: value > 0)
NOT_NEGATIVE = Range("it must not be negative", lambda value: value >= 0)
PROBABILITY = Range("it must be at least 0 and below 1", lambda value: 0 <= value < 1)
SHARE = Range("a share lies above 0 and at most at 1", lambda value: 0 < value <= 1)
SHARES = Range("shares lie above 0 and at most at 1", lambda value: 0 < value <= 1)
POSITIVE_EACH = Range("shares must be above 0", lambda value: value > 0)


def setting(default: Any, text: str, within: Range | None = None, *, flat: str = "") -> Any:
    """A field; `flat` is its name as a flag and in a settings file, where that is not its own."""
    return field(default=default, metadata={"help": text, "range": within, "flat": flat})


@dataclass(frozen=True, kw_only=True)
class Part:
    """The settings of one part of the method; a value of the wrong type or range is refused."""

    def __post_init__(self) -> None:
        types = types_of(type(self))
        for entry in fields(self):
            name, kind = entry.metadata.get("flat") or entry.name, types[entry.name]
            value = checked(name, kind, getattr(self, entry.name))
            check_range(name, entry.metadata.get("range"), value)
            object.__setattr__(self, entry.name, value)


def types_of(part: type) -> dict[str, Any]:
    """The types of a part's fields, by name."""
    return get_type_hints(part)


def checked(name: str, kind: Any, value: Any) -> Any:
    """The value in the field's own type: a whole number may stand for a fraction, a list for a
    tuple."""
    if get_origin(kind) is tuple:
        if not isinstance(value, (tuple, list)):
            raise GassipError(f"{name} is {value!r}; it must be a list")
        return tuple(checked(name, get_args(kind)[0], item) for item in value)
    if get_origin(kind) is Literal:
        if not isinstance(value, str) or value not in get_args(kind):
            raise GassipError(f"{name} is {value!r}; choose one of {', '.join(get_args(kind))}")
        return value
    allowed = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.get(kind, (object,))
    mistaken = isinstance(value, bool) and kind in (int, float)
    if not isinstance(value, allowed) or mistaken:
        raise GassipError(f"{name} is {value!r}; it must be a {getattr(kind, '__name__', kind)}")
    if isinstance(value, int) and abs(value) >= 2**1000:
        raise GassipError(f"{name} has hundreds of digits; it must lie below 2**31")
    if isinstance(value, int) and abs(value) >= 2**31:
        raise GassipError(f"{name} is {float(value):g}; it must lie below 2**31")
    if kind is float and value != value:
        raise GassipError(f"{name} is {value}; it must be a number")
    if kind is float:
        assert isinstance(value, (int, float))
        return float(value)
    return value


def check_range(name: str, within: Range | None, value: Any) -> None:
    several = isinstance(value, tuple)
    for item in value if several else (value,):
        if isinstance(item, float) and isinf(item) and within is not POSITIVE_OR_INFINITE:
            raise GassipError(f"{name} is {item}; it must be finite")
        if within is not None and not within.holds(item):
            raise GassipError(f"{name} is {list(value) if several else value}; {within.text}")
