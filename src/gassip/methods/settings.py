"""The settings of a method by name: as JSON has them, replaced, checked, read from texts."""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gassip.errors import GassipError
from gassip.methods.protocols import Method
from gassip.settings import Settings
from gassip.settings.numbers import number
from gassip.settings.old import renamed
from gassip.settings.settings import FIELDS


def plain_settings(method: Method) -> dict[str, Any]:
    """Every setting of a method, as JSON has it: tuples are lists. The settings of a search stand
    beside the method's by their flat names."""
    values = {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
    search = values.pop("settings", None)
    flat = search.flat() if isinstance(search, Settings) else {}
    return flat | {name: plain(value) for name, value in values.items()}


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def setting_types(method: Method) -> dict[str, Any]:
    """The types of all settings that a method has, by name."""
    hints = get_type_hints(type(method))
    types = {f.name: hints[f.name] for f in fields(method)}  # type: ignore[arg-type]
    if types.pop("settings", None) is None:
        return types
    return {name: field.kind for name, field in FIELDS.items()} | types


def changed(method: Method, given: Mapping[str, Any]) -> Method:
    """The method with some settings replaced; lists stand for tuples."""
    known = setting_types(method)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise GassipError(f"{type(method).__name__} has no setting {name!r}; {hint}")
    names = {f.name for f in fields(method)}  # type: ignore[arg-type]
    values = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items() if n in names}
    of_search = {name: value for name, value in given.items() if name not in names}
    if of_search:
        values["settings"] = method.settings.changed(**of_search)  # type: ignore[attr-defined]
    for name, value in values.items():
        if name != "settings":
            check_setting(name, value)
    return replace(method, **values)  # type: ignore[type-var]


MAY_BE_0 = ("warmup_epochs", "level", "steps")  # whole numbers that may be 0


def check_setting(name: str, value: Any) -> None:
    """Refuse what no method can mean: an infinite rate, no epochs, a dropout of 1.5."""
    for own in value if isinstance(value, tuple) else (value,):
        if isinstance(own, bool) or not isinstance(own, (int, float)):
            continue
        if not 0 <= own < 2**31:
            raise GassipError(f"{name} is {str(own)[:40]}; it must lie between 0 and 2**31")
        if isinstance(own, int) and own == 0 and name not in MAY_BE_0:
            raise GassipError(f"{name} is 0; it must be above 0")
        if name.endswith("dropout") and own >= 1:
            raise GassipError(f"{name} is {own}; it must be at least 0 and below 1")


def parsed(method: Method, given: Mapping[str, str]) -> dict[str, Any]:
    """Texts such as `--set hidden=64` as values of the settings' types."""
    types, given = setting_types(method), renamed(given)
    changed(method, {name: None for name in given if name not in types})
    return {name: _value(name, types[name], text) for name, text in given.items()}


def _value(name: str, kind: Any, text: str) -> Any:
    if get_origin(kind) in (Union, UnionType):
        if text.lower() == "none" and NoneType in get_args(kind):
            return None
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is tuple:
        return tuple(_value(name, get_args(kind)[0], part) for part in text.split(",") if part)
    if get_origin(kind) is Literal and text in get_args(kind):
        return text
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is str:
        return text
    if kind in (int, float):
        try:
            return number(kind, text)
        except ValueError as error:
            raise GassipError(f"{name}: {error}") from error
    raise GassipError(f"{name} is {text[:40]!r}; it must be a {_wanted(kind)}")


def _wanted(kind: Any) -> str:
    """The type in the words of an error line."""
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    return str(getattr(kind, "__name__", kind))
