"""Listeners that write the events of a search where dashboards read them (gassip.train.events).

    tensorboard   every number of an event under phase/name, at the step's number; nets as text
    mlflow        the same as metrics of one run, with the settings as its parameters

Both are context managers, so that what was heard is on disk however the search ends:

    with tensorboard("logs") as listener:
        gassip.search(graph, on_event=listener)

MLflow stores where MLFLOW_TRACKING_URI says. The libraries are imported when a logger is made.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gassip.errors import GassipError
from gassip.train.events import Event, Listener

FOLDER = "tensorboard"  # beside the runs: `tensorboard --logdir runs/tensorboard` shows all
LONGEST = 250  # characters of a parameter that MLflow takes


def numbers(event: Event) -> dict[str, float]:
    """phase/name: value, of every number but the step's own."""
    phase = event["phase"]
    named = {name: value for name, value in event.items() if name not in ("phase", "epoch")}
    return {f"{phase}/{name}": float(v) for name, v in named.items() if not isinstance(v, str)}


@contextmanager
def tensorboard(folder: str | Path, name: str = "") -> Iterator[Listener]:
    """A listener that writes event files into a new folder below `folder`."""
    check_installed("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    path = Path(folder) / "-".join(part for part in (name, stamp) if part)
    with SummaryWriter(str(path)) as writer:

        def hear(event: Event) -> None:
            step = int(event.get("epoch", 0))
            for tag, value in numbers(event).items():
                writer.add_scalar(tag, value, step)
            if event["phase"] == "stage":
                said = f"{event.get('stage', '')}: {event.get('architecture', '')}"
                writer.add_text("stage/net", said, step)

        yield hear


@contextmanager
def mlflow(name: str, parameters: Mapping[str, Any]) -> Iterator[Listener]:
    """A listener that logs metrics of one MLflow run, named `name`."""
    check_installed("mlflow")
    import mlflow as library

    with library.start_run(run_name=name or None):
        library.log_params({key: str(value)[:LONGEST] for key, value in parameters.items()})

        def hear(event: Event) -> None:
            library.log_metrics(numbers(event), step=int(event.get("epoch", 0)))

        yield hear


LOGGERS: dict[str, Callable[[Path, Mapping[str, Any]], AbstractContextManager[Listener]]] = {
    "tensorboard": lambda out, parameters: tensorboard(out.parent / FOLDER, out.name),
    "mlflow": lambda out, parameters: mlflow(out.name, parameters),
}


def check_installed(name: str) -> None:
    if find_spec(name) is None:
        raise GassipError(f"--log {name} needs {name}, which is not installed: pip install {name}")


@contextmanager
def logging(names: Iterable[str], out: Path, parameters: Mapping[str, Any]) -> Iterator[Listener]:
    """One listener for all loggers named, of the run that is written to `out`."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(LOGGERS[name](out, parameters)) for name in dict.fromkeys(names)
        ]

        def hear(event: Event) -> None:
            for listener in made:
                listener(event)

        yield hear
