"""Every example runs, says what it should, and is in the list of examples/README.md.

An example that needs arguments or libraries of its own has an entry in NEEDS; others just run.
"""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gassip
from gassip.nn.net import Architecture
from gassip.operations import OPERATIONS
from gassip.runtime import load
from tests.saved_runs import random_net, save_run

HOME = Path(__file__).parents[2] / "examples"
FILES = sorted(HOME.glob("*.py"))
RUN = "runs/quickstart"  # made by the fixture, for the examples that deploy
ARGUMENTS = {"deploy_without_torch": [RUN], "c_and_page": [RUN]}
NEEDS = {"pandas_table": ("pandas",), "service": ("fastapi", "httpx2"), "ray_cluster": ("ray",)}
SAYS = {
    "quickstart": ("test accuracy 0.7", "look at runs/quickstart/report.html"),
    "pandas_table": ("customer 200", "right of the forty: 3"),
    "pyg_data": ("test accuracy", "(34, 4)"),
    "budget": (" weights, ", "refused: "),
    "deadline": ("best 0.", "took "),
    "deploy_without_torch": ("a new node is",),
    "c_and_page": ("agree", "net.html"),
    "large_graph": ("hops on disk", "a new node is class"),
    "ray_cluster": ("equal scores: True",),
    "add_operation": ("Linear ‖ APPNP3", "by hand"),
    "add_method": ("mean test accuracy 0.7", "sgc test accuracy 0.7"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; the table of operations is put back."""
    monkeypatch.chdir(tmp_path)
    before = dict(OPERATIONS)
    yield tmp_path
    for name in set(OPERATIONS) - set(before):
        del OPERATIONS[name]


def saved() -> None:
    """A run with random weights, as quickstart.py saves one."""
    graph = gassip.load("debian")
    net = random_net(graph, Architecture(ops=("GCNConv", "Linear"), hidden=(8,)))
    save_run(Path(RUN), graph, net)


def check_libraries(name: str) -> None:
    for library in NEEDS.get(name, ()):
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_runs(
    file: Path,
    home: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    check_libraries(file.stem)
    if file.stem == "ray_cluster":
        request.getfixturevalue("one_cluster")
    if file.stem == "service":
        pytest.skip("it has tests of its own, below")
    arguments = ARGUMENTS.get(file.stem, [])
    if RUN in arguments:
        saved()
    if file.stem == "deploy_without_torch":  # a fresh process: this one has torch
        done = subprocess.run([sys.executable, file, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        out = done.stdout
    else:
        monkeypatch.setattr(sys, "argv", [str(file), *arguments])
        runpy.run_path(str(file), run_name="__main__")
        out = capfd.readouterr().out
    for text in SAYS.get(file.stem, ()):
        assert text in out, out


def test_every_example_is_in_the_list() -> None:
    text = (HOME / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in FILES if f"]({file.name})" not in text] == []


# service.py


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    check_libraries("service")
    from fastapi.testclient import TestClient

    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("service"))
    try:
        saved()
        app = runpy.run_path(str(HOME / "service.py"))["create_app"](RUN)
        with TestClient(app) as made:
            yield made
    finally:
        os.chdir(before)


def test_the_service_labels_as_the_runtime_does(client: Any) -> None:
    model = load(RUN)
    expected = [model.class_names[k] for k in model.predict(nodes=[0, 17])]
    answer = client.post("/label", json={"nodes": [0, 17]}).json()
    assert [own["label"] for own in answer] == expected
    assert client.get("/health").json() == {"nodes": 3134, "classes": 9}


def test_a_new_node_like_an_old_one_is_labelled_alike(client: Any) -> None:
    """The features as they were given and the neighbours that the run kept."""
    model, graph = load(RUN), gassip.load("debian")
    row = graph.to_data().x[17]
    near = model.edges[[17], :].indices.tolist()
    features = {str(k): float(row[k]) for k in row.nonzero().flatten().tolist()}
    answer = client.post("/label-new", json={"features": features, "neighbours": near}).json()
    assert answer["label"] == model.class_names[int(model.predict(nodes=[17])[0])]
    assert 0 < answer["probability"] <= 1
    assert client.post("/label-new", json={"features": {}}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/label", {"nodes": []}),
        ("/label", {"nodes": [3134]}),
        ("/label", {"nodes": [-1]}),
        ("/label", {"nodes": list(range(101))}),
        ("/label-new", {"features": {"1200": 1.0}}),
        ("/label-new", {"features": {"0": "much"}}),
        ("/label-new", {"features": {str(k): 1.0 for k in range(1001)}}),
        ("/label-new", {"features": {}, "neighbours": [3134]}),
        ("/label-new", {"features": {}, "neighbours": [0] * 101}),
    ],
)
def test_what_is_out_of_bounds_is_refused(client: Any, path: str, body: object) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422 and answer.json()["detail"]


def test_numbers_that_are_not_finite_and_long_bodies_are_refused(client: Any) -> None:
    kind = {"content-type": "application/json"}
    infinite = client.post("/label-new", content='{"features": {"0": 1e999}}', headers=kind)
    assert infinite.status_code == 422
    assert client.post("/label", content=b" " * 70_000, headers=kind).status_code == 413
    unsaid = client.post("/label", content=iter([b'{"nodes": [0]}']), headers=kind)
    assert unsaid.status_code == 411
