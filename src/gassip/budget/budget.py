"""Hard bounds on a net: what may be bounded, what an amount looks like, what the flags say.

    25%      a share of a GCN with 64 hidden units on the same graph; of `max_edges`, of its edges
    10,000   a number; a comma separates thousands
    100kB    bytes

A kind of budget is a field of `Budget` with its help, and one of `Limits`. A count that nn/size.py
does not know is given beside the help: `bounded("...", count=lambda net, graph: ...)`.
torch is not imported: the command line makes its flags from here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

from gassip.errors import GassipError

if TYPE_CHECKING:
    from gassip.graph.graph import Graph
    from gassip.nn.net import Net

Amount = float | str | None
Count = Callable[["Net", "Graph"], float]
NO_UNIT: dict[str, float] = {"": 1}
MILLISECONDS = NO_UNIT | {"ms": 1}
BYTES = NO_UNIT | {"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30}
THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(?![0-9,])")
AMOUNT = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) *([a-z%]*)")


def bounded(text: str, units: dict[str, float] = NO_UNIT, count: Count | None = None) -> Any:
    """A bound with its help, the units of an amount, and what counts it, if nn/size.py does not."""
    return field(default=None, metadata={"help": text, "units": units, "count": count})


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most a net may weigh; None bounds nothing."""

    max_params: Amount = bounded("weights stored: a number, or a share of a GCN-64's such as 25%")
    max_edges: Amount = bounded("edges kept: a number, or a share of the graph's")
    max_bytes: Amount = bounded(
        "bytes of model.safetensors: a number, 100kB, or a share of a GCN-64's", BYTES
    )
    max_latency_ms: Amount = bounded(
        "milliseconds of one inference, measured here, or a share of a GCN-64's",
        MILLISECONDS,
    )
    max_macs: Amount = bounded("multiply-adds of one inference: a number, or a share of a GCN-64's")

    def __post_init__(self) -> None:
        for bound in fields(self):
            read_amount(bound.name, getattr(self, bound.name))

    @property
    def given(self) -> dict[str, float | str]:
        """The bounds that there are, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __bool__(self) -> bool:
        return bool(self.given)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A budget in numbers for one graph."""

    params: float = inf
    edges: float = inf
    bytes: float = inf
    latency_ms: float = inf
    macs: float = inf


HELP: dict[str, str] = {bound.name: bound.metadata["help"] for bound in fields(Budget)}
UNITS: dict[str, dict[str, float]] = {
    bound.name: bound.metadata["units"] for bound in fields(Budget)
}
COUNTS: dict[str, Count] = {
    bound.name.removeprefix("max_"): bound.metadata["count"]
    for bound in fields(Budget)
    if bound.metadata["count"] is not None
}


def read_amount(name: str, given: Amount) -> tuple[float, bool] | None:
    """The number, and whether it is a share; None for no bound."""
    if given is None:
        return None
    flag, units = "--" + name.replace("_", "-"), UNITS[name]
    parts = AMOUNT.fullmatch(_without_thousands(flag, str(given).strip().lower()))
    value = _number(parts[1]) if parts and not isinstance(given, bool) else nan
    if not (isfinite(value) and value > 0) or parts is None or parts[2] not in {"%", *units}:
        bytes_too = ", or 100kB" if units is BYTES else ""
        expected = f"expected a number above 0 or a share such as 25%{bytes_too}"
        raise GassipError(f"{flag} is {str(given)!r}; {expected}")
    return (value / 100, True) if parts[2] == "%" else (value * units[parts[2]], False)


def _without_thousands(flag: str, text: str) -> str:
    """10,000 is 10000; a decimal comma is refused, since 1,5 would be read as 15."""
    plain = THOUSANDS.sub(lambda found: found[0].replace(",", ""), text, count=1)
    if "," in plain:
        raise GassipError(
            f"{flag} is {text!r}; a comma separates thousands as in 10,000, "
            "and decimals need a point as in 1.5"
        )
    return plain


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
