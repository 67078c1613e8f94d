"""Settings: all inputs of a search as one value, addressed by flat names as flags and files do.

Settings.of(epochs=20, retrain_dropout=0.5)         the preset paper's defaults, two replaced
settings.changed(teachers=1)                        another value
settings.flat()                                     {"direction": ..., "ops": [...], ...}
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from gassip.errors import GassipError, refuse_special
from gassip.settings.best import STAGES, Best
from gassip.settings.fields import Part, checked, types_of
from gassip.settings.old import DECIDED, renamed, upgraded
from gassip.settings.search import Search
from gassip.settings.training import Retraining

Direction = Literal["given", "both", "auto"]
DIRECTION_HELP = "edges as given, both ways, or auto (by validation)"


@dataclass(frozen=True)
class Field:
    """One setting as a flag or a key of a file: where it belongs and what it takes."""

    name: str
    title: str  # of the group it belongs to
    kind: Any
    default: Any
    help: str
    part: str  # attribute of Settings, or of Best
    attribute: str
    stage: bool  # whether it is a setting of `best` alone


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The inputs of a search; `best` is None where nothing past the paper is done."""

    direction: Direction = "given"
    search: Search = field(default_factory=Search)
    retraining: Retraining = field(default_factory=Retraining)
    best: Best | None = None

    def __post_init__(self) -> None:
        checked("direction", Direction, self.direction)
        if self.best is None:
            return
        wide, heads = self.best.teaching.teacher_hidden, self.search.heads
        if wide % heads:
            raise GassipError(f"heads is {heads}, which does not divide teacher_hidden = {wide}")
        final, layers = self.best.student.final_ops, self.search.layers
        if final and len(final.split("+")) != layers:
            raise GassipError(f"final_ops is {final!r}; name {layers} operations, one per layer")

    @staticmethod
    def of(**given: Any) -> "Settings":
        return Settings().changed(**given)

    def changed(self, **given: Any) -> "Settings":
        """With some settings replaced, by flat name; one of `best` alone switches `best` on."""
        parts: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            entry = known(name)
            parts.setdefault(entry.part, {})[entry.attribute] = value
        best = self.best
        if best is None and any(FIELDS[name].stage for name in given):
            best = Best()
        if best is not None:
            stages = {k: replace(getattr(best, k), **v) for k, v in parts.items() if k in STAGES}
            best = replace(best, **stages)
        return Settings(
            direction=parts.get("", {}).get("direction", self.direction),
            search=replace(self.search, **parts.get("search", {})),
            retraining=replace(self.retraining, **parts.get("retraining", {})),
            best=best,
        )

    def flat(self) -> dict[str, Any]:
        """Every setting by its flat name, as JSON has it: lists for tuples."""
        out = {}
        for entry in FIELDS.values():
            if not entry.stage or self.best is not None:
                value = self.value(entry)
                out[entry.name] = list(value) if isinstance(value, tuple) else value
        return out

    def value(self, entry: Field) -> Any:
        if entry.part == "":
            return self.direction
        holder = self.best if entry.stage else self
        return getattr(getattr(holder, entry.part), entry.attribute)


def from_flat(given: Mapping[str, Any]) -> Settings:
    """The inverse of `flat`; names of earlier versions are read too."""
    return Settings.of(**renamed(given))


def _fields() -> dict[str, Field]:
    found = {
        "direction": Field(
            "direction", "edges", Direction, "given", DIRECTION_HELP, "", "direction", False
        )
    }
    parts: list[tuple[str, type[Part], bool]] = [
        ("search", Search, False),
        ("retraining", Retraining, False),
        *((name, part, True) for name, part in STAGES.items()),
    ]
    for where, part, stage in parts:
        for entry in fields(part):
            name = entry.metadata["flat"] or entry.name
            assert name not in found, f"two settings are called {name}"
            title = (part.__doc__ or where).rstrip(".")
            kind, text = types_of(part)[entry.name], entry.metadata["help"]
            found[name] = Field(name, title, kind, entry.default, text, where, entry.name, stage)
    return found


FIELDS = _fields()


def known(name: str) -> Field:
    """The setting of that name, or one line with the nearest."""
    if name in FIELDS:
        return FIELDS[name]
    if name in DECIDED:
        raise GassipError(
            f"{name} is decided by the search, not set; see `gassip search --explain`"
        )
    near = difflib.get_close_matches(name, FIELDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "see `gassip search --help-all`"
    raise GassipError(f"there is no setting {name!r}; {hint}")


CONDITIONS = {
    "weight_share": ("weight_rule", "budget"),
    "edge_share": ("edge_rule", "budget"),
    "update_eps": ("update_rule", "literal"),
}  # settings of the search that are read under one value of another
NOT_IN_BEST = {
    "weight_rule": "chooses the size of the net on validation (--size-share)",
    "weight_share": "chooses the size of the net on validation (--size-share)",
    "edge_rule": "chooses the edges on validation (--edge-shares)",
    "edge_share": "chooses the edges on validation (--edge-shares)",
    "retrain_dropouts": "chooses a recipe on validation (--recipes)",
}
CHOSEN_BY_RECIPE = ("retrain_dropout", "retrain_weight_decay")
READ_BY_PLAIN = {
    *("direction", "layers", "heads", "batch_norm", "recipes", "size_share", "for"),
    *("plain", "plain_epochs", "plain_only"),
    *("retrain_start", "retrain_epochs", "retrain_lr", "retrain_weight_decay", "retrain_dropout"),
    *("keep_epoch", "schedule", "validate_every"),
}  # what the training of plain nets reads; a plain net serves any graph, whatever `for` says


def unread(settings: Settings, names: Iterable[str]) -> list[str]:
    """Those of `names` that a search with these settings does not read."""
    if settings.best is None:
        return [name for name in names if FIELDS[name].stage]
    recipes = settings.best.recipe.recipes
    ignored = set(NOT_IN_BEST)
    if "given" not in recipes:
        ignored |= set(CHOSEN_BY_RECIPE)
    if len(recipes) == 1:
        ignored |= {"trial_epochs"}
    if settings.best.plain.plain_only:
        ignored |= FIELDS.keys() - READ_BY_PLAIN
    return [name for name in names if name in ignored]


def without_effect(settings: Settings, names: Iterable[str]) -> list[str]:
    """Those that are not read, and those whose condition another setting does not meet."""
    names = list(names)
    ignored = unread(settings, names)
    return [name for name in names if name in ignored or not _condition(settings, name)]


def foreign(settings: Settings) -> set[str]:
    """The settings of the other preset: no other setting makes a search read them."""
    if settings.best is None:
        return {name for name, entry in FIELDS.items() if entry.stage}
    return set(NOT_IN_BEST)


def _condition(settings: Settings, name: str) -> bool:
    """Whether the setting on which this one depends has the value under which it is read."""
    if name not in CONDITIONS:
        return True
    other, value = CONDITIONS[name]
    return bool(settings.value(FIELDS[other]) == value)


def why_unread(settings: Settings, name: str, preset: str) -> str:
    """What does not read a setting, why, and the remedy; ends `--edge-share is not read by ...`."""
    if settings.best is None and FIELDS[name].stage:
        reason = "trains what the search found and nothing else"
        return f"the preset {preset}, which {reason}; use --preset best, or leave it out"
    if settings.best is not None and name in NOT_IN_BEST:
        reason = NOT_IN_BEST[name]
        return f"the preset {preset}, which {reason}; use --preset paper, or leave it out"
    if settings.best is not None and settings.best.plain.plain_only and name not in READ_BY_PLAIN:
        reason = "trains plain nets and nothing else"
        return f"the preset {preset}, which {reason}; use --preset best, or leave it out"
    if name in CHOSEN_BY_RECIPE:
        reason = "chooses a recipe on validation"
        return f"the preset {preset}, which {reason}; use --recipes given, or leave it out"
    if name in CONDITIONS:
        other, value = CONDITIONS[name]
        now = settings.value(FIELDS[other])
        return f"{other} = {now}; use --{other.replace('_', '-')} {value}, or leave it out"
    return "a search with one recipe; name two or more in --recipes, or leave it out"


def read_settings(path: Path) -> dict[str, Any]:
    """Settings from a TOML or JSON file: a flat table of names and values, old names too."""
    import tomllib  # a tenth of the start-up; only a file needs it

    try:
        refuse_special(path)
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise GassipError(f"cannot read settings from {path}: {error}") from None
    if not isinstance(found, dict):
        raise GassipError(f"{path} must hold a table of settings, not a {type(found).__name__}")
    return upgraded(found, frozenset(name for name, entry in FIELDS.items() if entry.stage))
