"""Whole commands with bad flags, budgets, settings, run folders and checkpoints."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_tensors
from safetensors.torch import save as to_bytes

from gassip.budget.budget import HELP, Budget
from gassip.cli import COMMANDS, build_parser
from gassip.deploy.added import answers
from gassip.deploy.labelling import main as runtime
from gassip.deploy.runtime import Model, load
from gassip.errors import GassipError
from gassip.graph.datasets import read
from gassip.runs.checkpoint import FILE, FolderCheckpoint
from gassip.runs.read import open_run
from gassip.settings import Settings
from gassip.settings.settings import FIELDS, read_settings
from tests.commands.test_bad_calls import place as place
from tests.fuzz.border import CASES, MORE, bounded, called, mutated, names, refused
from tests.fuzz.values import JSON, TEXTS
from tests.saved_runs import refit

MANY = settings(max_examples=CASES["budgets"] * MORE)


@given(name=st.sampled_from(sorted(HELP)), text=st.one_of(st.sampled_from(TEXTS), st.text()))
@MANY
def test_budgets(name: str, text: str) -> None:
    refused(f"{name}={text!r}", lambda: Budget(**{name: text}))


def anything() -> st.SearchStrategy[object]:
    plain = st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(JSON))
    return st.one_of(plain, st.lists(plain, max_size=3))


@given(name=st.sampled_from(sorted(FIELDS)), value=anything())
@MANY
def test_values_of_settings(name: str, value: object) -> None:
    refused(f"{name}={value!r}", lambda: Settings.of(**{name: value}))


def test_settings_files(tmp_path: Path) -> None:
    rng = random.Random(0)
    good = "epochs = 20\nops = ['GCNConv', 'Linear']\nlr_weight = 0.01\nedge_shares = [0.5, 1]\n"
    for suffix, text in (("toml", good), ("json", '{"epochs": 20, "lr_weight": 0.01}')):
        path = tmp_path / f"s.{suffix}"
        for _ in range(MORE * CASES["settings files"] // 2):
            path.write_bytes(mutated(text.encode(), rng))
            refused(f"{path}", lambda path=path: Settings.of(**read_settings(path)))  # type: ignore[misc]


# Flags: the searches and trainings themselves are stopped


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything up to the first epoch is done; nothing is trained, measured or downloaded."""

    def stop(*args: object, **kwargs: object) -> None:
        raise GassipError("stopped")

    for name in (
        "gassip.budget.timed.search_within",
        "gassip.budget.timed.search_until",
        "gassip.bench.execute.carry_out",
        "gassip.bench.execute.solve_part",
        "gassip.commands.front.front",
        "gassip.commands.front.edge_front",
        "gassip.train.batched.retrain_many",
        "gassip.graph.datasets._download",
    ):
        monkeypatch.setattr(name, stop)
    monkeypatch.chdir(tmp_path)


FIRST: dict[str, list[str]] = {
    "search": ["--data", "G"],
    "explain": ["RUN"],
    "evaluate": ["RUN"],
    "front": ["--data", "G"],
    "predict": ["RUN", "--out", "l.csv"],
    "export": ["RUN", "--format", "runtime", "--out", "e"],
    "run": ["gcn", "--data", "G"],
    "tune": ["gcn", "--data", "G"],
    "table": ["--results", "results"],
    "leaderboard": ["RUN"],
    "reproduce": ["main", "--datasets", "debian", "--quiet"],
}  # a good call of each command; others have no flags that take a text
MOST_FLAGS = {"search": 24, "front": 12, "evaluate": 6, "run": 15}


def test_there_are_a_thousand_cases() -> None:
    """Kinds of files and calls, besides the faults at every write."""
    assert sum(MOST_FLAGS.get(name, 10) for name in FIRST) == CASES["flags"]
    assert sum(CASES.values()) >= 1000


@pytest.mark.parametrize("command", [name for name in FIRST if name in COMMANDS])
@pytest.mark.filterwarnings("ignore")  # of libraries, which the command line does not show
def test_flags(place: Path, tmp_path: Path, stopped: None, command: str) -> None:
    rng = random.Random(command)
    names_of = {"G": str(place / "g.npz"), "RUN": str(place / "run")}
    good = [names_of.get(word, word) for word in FIRST[command]]
    actions = [a for a in build_parser().commands[command]._actions if a.option_strings]
    for _ in range(MORE * MOST_FLAGS.get(command, 10)):
        action = rng.choice(actions)
        flag = action.option_strings[-1]
        words = [flag] if action.nargs == 0 else [f"{flag}={rng.choice(TEXTS)}"]
        if "/dev/" in words[0] or "/proc/" in words[0]:
            words.append("--overwrite")
        before = names(tmp_path)
        if called([command, *good, *words]) == 2:
            assert names(tmp_path) == before, words


@pytest.mark.filterwarnings("ignore")
def test_positions(place: Path, tmp_path: Path, stopped: None) -> None:
    """Paths and names that are not there, and words that are no command."""
    for text in TEXTS[:: max(1, 4 // MORE)]:
        called([text, "--data", text])
        called(["predict", text, "--out", "l.csv"])
        called(["run", text, "--data", str(place / "g.npz")])
    assert not names(tmp_path)


# Requests to the service

KEYS = st.sampled_from(["id", "x", "columns", "neighbours", "edges", "source", "target", "weight"])


@given(value=st.recursive(anything(), lambda own: st.dictionaries(KEYS, own, max_size=4)))
@settings(max_examples=CASES["requests"] * MORE)
def test_requests(model: Model, value: object) -> None:
    """JSON in, JSON out: an answer or an error, never a traceback."""
    text = json.dumps(value)
    with bounded(text[:100]):
        found = list(answers(model, [text]))
    assert all(("label" in own) != ("error" in own) for own in found)
    assert json.dumps(found, allow_nan=False)


@pytest.fixture(scope="module")
def model(place: Path) -> Model:
    return load(place / "run")


# Run folders


def refit_json(folder: Path, rng: random.Random) -> str:
    """One entry of meta.json, at any depth, replaced."""
    meta = json.loads((folder / "meta.json").read_bytes())
    holder, key = meta, rng.choice([key for key in meta if key not in ("sha256", "files")])
    while isinstance(holder[key], dict) and holder[key] and rng.random() < 0.7:
        holder = holder[key]
        key = rng.choice(list(holder))
    value = rng.choice(JSON)
    holder[key] = value
    entries = {name: own for name, own in meta.items() if name not in ("sha256", "files")}
    refit(folder, {}, **json.loads(json.dumps(entries).replace("Infinity", "1e400")))
    return f"meta.json {key} = {value!r}"[:100]


def refit_tensors(folder: Path, rng: random.Random) -> str:
    """One tensor of another shape, type or value."""
    name = rng.choice([f"{own}.safetensors" for own in ("model", "graph", "found", "inputs")])
    tensors = load_tensors((folder / name).read_bytes())
    key = rng.choice(sorted(tensors))
    old, choice = tensors[key], rng.randrange(6)
    if choice == 0:
        del tensors[key]
    elif choice == 1:
        tensors[key] = old[:-1].clone()
    elif choice == 2:
        tensors[key] = old.reshape(-1).clone()
    elif choice == 3:
        tensors[key] = old.double() if old.is_floating_point() else old.float()
    elif choice == 4:
        tensors[key] = (old * 0 + 10**6).to(old.dtype) if old.element_size() > 2 else ~old.bool()
    else:
        tensors["more"] = old.clone()
    refit(folder, {name: to_bytes(tensors)})
    return f"{name} {key} {choice}"


def refit_bytes(folder: Path, rng: random.Random) -> str:
    """Bytes of a file changed, its checksum made to fit."""
    meta = json.loads((folder / "meta.json").read_bytes())
    name = rng.choice(sorted(meta["files"]))
    refit(folder, {name: mutated((folder / name).read_bytes(), rng)})
    return f"bytes of {name}"


def spoil(folder: Path, rng: random.Random) -> str:
    """A file damaged, emptied or removed, as disks do it."""
    path = folder / rng.choice(sorted(own.name for own in folder.iterdir()))
    if rng.random() < 0.2:
        path.unlink()
    else:
        path.write_bytes(mutated(path.read_bytes(), rng))
    return f"damaged {path.name}"


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("change", [refit_json, refit_tensors, refit_bytes, spoil])
def test_run_folders(
    place: Path, tmp_path: Path, change: Callable[[Path, random.Random], str], part: int
) -> None:
    rng = random.Random(f"{change.__name__} {part}")
    run = tmp_path / "run"
    for at in range(MORE * CASES["run folders"] // 8):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(place / "run", run)
        what = change(run, rng)
        refused(f"open_run: {what}", lambda: open_run(run))
        refused(f"runtime: {what}", lambda: np.isfinite(load(run).scores()).all())
        if at % 5 == 0:
            for words in (["predict", str(run)], ["export", str(run), "--format", "runtime"]):
                called([*words, "--out", str(tmp_path / "o")])
            called([str(run), "--out", str(tmp_path / "o")], runtime)
            shutil.rmtree(tmp_path / "o", ignore_errors=True)
            (tmp_path / "o").unlink(missing_ok=True)
    assert {name for name in names(tmp_path) if not name.startswith("run")} == set()


def test_checkpoints(place: Path, tmp_path: Path) -> None:
    graph, rng = read(place / "g.npz"), random.Random(0)
    chosen = Settings.of(epochs=1)
    kept = FolderCheckpoint(tmp_path, graph=graph, settings=chosen, seed=0, metric="accuracy")
    kept.save(lambda: {"w": graph.y, "m": graph.train_mask}, [{"epoch": 1}])
    content = (tmp_path / FILE).read_bytes()
    for _ in range(MORE * CASES["checkpoints"]):
        (tmp_path / FILE).write_bytes(mutated(content, rng))
        refused("checkpoint", kept.load)
