"""A search's state on disk, so that a killed one goes on to the same bits: a folder,
`<out>.partial`.

    search.safetensors   the state of the supernet, its masks and optimizers after some epoch
    net-S-K.safetensors  the K-th net of stage S of `best`, trained

Each is written beside the old one and renamed over it. Its header holds three texts: `history`
(JSON, one row per epoch; of a net one row with its seconds), `identity` (JSON: settings, seed,
metric, graph fingerprint, versions, all of which must be the same to go on) and `sha256` over the
tensors and the other two.
"""

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from gassip import __version__
from gassip.errors import GassipError
from gassip.graph.graph import Graph
from gassip.nn.size import to_bytes
from gassip.runs.format import from_bytes, replace_file
from gassip.settings import Settings
from gassip.train.plan import Row

FILE = "search.safetensors"
NETS = "net-{}.safetensors"  # of the stage and number that name a net


class FolderCheckpoint:
    """The `Checkpoint` of `search`, in a folder; written every `every` epochs and after the
    last."""

    def __init__(
        self,
        folder: Path,
        *,
        graph: Graph,
        settings: Settings,
        seed: int,
        metric: str,
        every: int = 25,
    ) -> None:
        self.folder, self.every, self.epochs = folder, every, settings.search.epochs
        self.identity = identity(graph, settings, seed, metric)

    def load(self) -> tuple[dict[str, Tensor], list[Row]] | None:
        """The state as last written; None where there is none yet."""
        path = self.folder / FILE
        if not path.exists():
            return None
        tensors, history, stored = read(path)
        check_identity(path, stored, self.identity)
        return tensors, history

    def save(self, tensors: Callable[[], dict[str, Tensor]], history: list[Row]) -> None:
        if len(history) % self.every == 0 or len(history) == self.epochs:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(self.folder / FILE, tensors(), history, self.identity)

    def recall(self, name: str) -> tuple[dict[str, Tensor], float, int] | None:
        path = self.folder / NETS.format(slug(name))
        if not path.exists():
            return None
        weights, (row,), stored = read(path)
        check_identity(path, stored, self.identity)
        return weights, float(row["seconds"]), int(row.get("epoch", 0))

    def remember(self, name: str, trained: tuple[dict[str, Tensor], float, int]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        weights, seconds, epoch = trained
        row: Row = {"net": name, "seconds": seconds, "epoch": epoch}
        write(self.folder / NETS.format(slug(name)), weights, [row], self.identity)


def slug(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower())


def held(folder: Path) -> bool:
    """Whether the folder holds anything to go on from."""
    return (folder / FILE).exists() or any(folder.glob(NETS.format("*")))


def discard(folder: Path) -> None:
    """Remove a checkpoint's folder and what is ours in it; anything else stays."""
    if folder.is_dir():
        for name in (FILE, NETS.format("*")):
            for path in [*folder.glob(name), *folder.glob(f".{name}.*.tmp")]:
                path.unlink(missing_ok=True)
        with suppress(OSError, MemoryError):  # an empty folder holds no search
            folder.rmdir()


def identity(graph: Graph, settings: Settings, seed: int, metric: str) -> dict[str, object]:
    """Everything a search's bits follow from, but the machine and its threads."""
    plain = settings.flat()
    fixed = {"seed": seed, "metric": metric, "graph": graph.fingerprint}
    return fixed | {"gassip": __version__, "torch": str(torch.__version__), "settings": plain}


def write(
    path: Path, tensors: dict[str, Tensor], history: list[Row], stored: dict[str, object]
) -> None:
    """All or nothing: a file beside it, flushed to the disk, then renamed over it."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    # a value that is not a number (an undefined validation score) is written as null, and read back
    # as NaN
    rows = [{k: None if v != v else v for k, v in row.items()} for row in history]
    texts = {
        "history": json.dumps(rows, allow_nan=False),
        "identity": json.dumps(stored, allow_nan=False),
    }
    replace_file(path, to_bytes(plain, texts | {"sha256": _digest(plain, texts)}))


def read(path: Path) -> tuple[dict[str, Tensor], list[Row], dict[str, object]]:
    """Tensors, history and identity, or a refusal by name."""
    remedy = "remove its folder, or use --overwrite, to start anew"
    try:
        arrays, texts = from_bytes(path.read_bytes())
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        expected = texts.pop("sha256", "")
        if expected != _digest(tensors, texts):
            raise GassipError("its checksum does not fit")
        rows, stored = json.loads(texts["history"]), json.loads(texts["identity"])
    except (GassipError, OSError, ValueError, KeyError, RecursionError) as error:
        raise GassipError(
            f"checkpoint {path} is damaged or not one of gassip ({_short(error)}); {remedy}"
        ) from error
    history = [{k: float("nan") if v is None else v for k, v in row.items()} for row in rows]
    return tensors, history, stored


def _digest(tensors: dict[str, Tensor], texts: dict[str, str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    for name in sorted(texts):
        digest.update(f"{name}\n{texts[name]}\n".encode())
    return digest.hexdigest()


def check_identity(path: Path, stored: dict[str, object], now: dict[str, object]) -> None:
    """The first thing that differs, by name."""
    before, after = _flat(stored), _flat(now)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            was, given = _short(before.get(name)), _short(after.get(name))
            raise GassipError(
                f"checkpoint {path} was written with {name} = {was}, not {given}; "
                f"give the same to go on, or use --overwrite to start anew"
            )


def _flat(stored: dict[str, object]) -> dict[str, object]:
    settings = stored.get("settings")
    rest = {k: v for k, v in stored.items() if k != "settings"}
    return rest | (settings if isinstance(settings, dict) else {})


def _short(value: object, length: int = 80) -> str:
    return " ".join(str(value).split())[:length]
