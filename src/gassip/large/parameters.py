"""The parameters of the block model as flags; the command line reads them without numpy."""

from collections.abc import Callable, Mapping

from gassip.errors import GassipError

Parameter = tuple[Callable[[str], float], float, str]
PARAMETERS: dict[str, Parameter] = {
    "degree": (float, 10.0, "mean degree"),
    "classes": (int, 4, "number of classes"),
    "features": (int, 16, "number of features, at least as many as classes"),
    "homophily": (float, 0.6, "share of edges within a class"),
    "signal": (float, 1.0, "distance between the mean features of two classes, in deviations"),
    "labelled": (float, 0.1, "share of training nodes; as many again validate"),
}


def check_parameters(given: Mapping[str, float]) -> None:
    """Each within its range."""
    within = {
        "degree": (0 < given["degree"] <= 1000, "over 0 and at most 1000"),
        "classes": (2 <= given["classes"] <= 1000, "2 to 1000"),
        "features": (given["classes"] <= given["features"] <= 10_000, "classes to 10,000"),
        "homophily": (0 < given["homophily"] < 1, "between 0 and 1"),
        "signal": (0 <= given["signal"] <= 100, "0 to 100"),
        "labelled": (0 < given["labelled"] <= 0.4, "over 0 and at most .4"),
    }
    for name, (holds, text) in within.items():
        if not holds:
            raise GassipError(f"--{name} is {given[name]}; it must be {text}")
