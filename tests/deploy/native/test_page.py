"""The page that runs the net: in a real browser it labels as the runtime does; text is escaped."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gassip
from gassip.cli import main
from gassip.deploy import runtime
from gassip.deploy.native import page_graph as sampling
from gassip.deploy.native.net import native_net
from gassip.deploy.native.page import to_html
from gassip.deploy.native.page_graph import drawn_nodes, page_graph, places
from gassip.graph.preparation import Preparation
from gassip.nn.net import Architecture
from tests.browser import axe, browser, console, requests, scheme, why_not
from tests.deploy.native.test_c import MakeGraph, save
from tests.saved_runs import random_net, save_run

HOSTILE = "</script><script>document.title='broken'</script>"
needs_browser = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def tables(nodes: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People with an age, a town, a date and a word of doubt; names that try to be markup."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"p{k}" if k else HOSTILE for k in range(nodes)],
            "label": [(HOSTILE, "b & c", "d")[k % 3] for k in range(nodes)],
            "age": np.where(rng.random(nodes) < 0.1, np.nan, rng.integers(18, 90, nodes)),
            "town <b>": rng.choice(["Ulm", "Ghent", HOSTILE], nodes),
            "since": pd.to_datetime("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 999, nodes), "D"),
            "paid": rng.random(nodes) < 0.5,
        }
    )
    ends = rng.integers(0, nodes, (2, 3 * nodes))
    ids = frame["id"].to_numpy()
    return frame, pd.DataFrame({"source": ids[ends[0]], "target": ids[ends[1]]})


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of named columns and its page."""
    folder = tmp_path_factory.mktemp("page")
    graph = gassip.from_frames(*tables())
    net = random_net(graph, Architecture(ops=("GCNConv", "Linear"), hidden=(8,), heads=(1,)))
    save_run(folder / "run", graph, net)
    to_html(folder / "run", folder / "net.html")
    return folder


@pytest.fixture(scope="module")
def opened(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        driver.get((exported / "net.html").as_uri())
        wait_until_ready(driver)
        yield driver


def wait_until_ready(driver: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 30).until(
        lambda own: own.execute_script("return document.body.dataset.ready") == "yes"
    )


def fill(driver: Any, name: str, text: str) -> None:
    field = driver.find_element("id", name)
    field.clear()
    field.send_keys(text)


def said_label(driver: Any, where: str) -> str:
    found = driver.find_element("css selector", f"#{where} .answer")
    return str(found.get_attribute("data-label"))


@needs_browser
def test_ten_nodes_have_the_labels_of_the_runtime(exported: Path, opened: Any) -> None:
    model = runtime.load(exported / "run")
    assert model.ids is not None
    expected = [model.class_names[k] for k in model.predict()]
    for node in range(0, 60, 6):
        fill(opened, "node", model.ids[node])
        opened.find_element("css selector", "#known button").click()
        heading = opened.find_element("css selector", "#known-result h3")
        assert heading.text == f"Node {model.ids[node]}"
        assert said_label(opened, "known-result") == expected[node]
    assert opened.execute_script("return state.labels") == model.predict().tolist()


@needs_browser
def test_a_new_node_is_described_by_columns_and_neighbours(exported: Path, opened: Any) -> None:
    """The cells as a table would hold them, and as `extend` reads them."""
    from selenium.webdriver.support.ui import Select

    model = runtime.load(exported / "run")
    preparation = model.preparation
    assert isinstance(preparation, Preparation) and model.ids is not None
    for name in ("p3", "p7", "p3"):
        fill(opened, "neighbour", name)
        opened.find_element("id", "add").click()
    fields = {
        field.get_attribute("data-column"): field
        for field in opened.find_elements("css selector", "[data-column]")
    }
    assert set(fields) == {"age", "town <b>", "since", "paid"}
    assert fields["age"].get_attribute("placeholder") == "19 to 89"  # as they come in the table
    fields["age"].send_keys("41.5")
    opened.execute_script("arguments[0].value = '2021-03-04'", fields["since"])
    Select(fields["paid"]).select_by_visible_text("true")
    Select(fields["town <b>"]).select_by_visible_text("Ghent")
    opened.find_element("id", "predict").click()
    days = (np.datetime64("2021-03-04") - np.datetime64("1970-01-01")).astype(float)
    cells = {"age": 41.5, "since": days, "paid": 1.0}
    values = {name: np.array([value]) for name, value in cells.items()}
    row = preparation.features(values | {"town <b>": np.array(["Ghent"], dtype=object)})
    ends = np.array([[model.ids.index("p3"), model.ids.index("p7")], [60, 60]])
    larger = model.extend(row, ends)
    scores = larger.scores(nodes=[60])[0]
    assert said_label(opened, "new-result") == model.class_names[int(scores.argmax())]
    shown = opened.find_elements("css selector", "#new-result .value")
    best = float(
        np.exp(scores - scores.max())[scores.argmax()] / np.exp(scores - scores.max()).sum()
    )
    assert shown[0].text == f"{100 * best:.1f} %"


@needs_browser
def test_features_copied_from_a_node_are_those_of_that_node(exported: Path, opened: Any) -> None:
    x = runtime.load(exported / "run").x
    for node in (1, 5, 12, 40):
        got = opened.execute_script(f"copyFeatures({node}); return Array.from(newRow())")
        np.testing.assert_allclose(got, np.asarray(x)[node], rtol=1e-5, atol=1e-5)


@needs_browser
def test_bad_input_is_told_in_the_page(opened: Any) -> None:
    fill(opened, "neighbour", "nobody")
    opened.find_element("id", "add").click()
    assert 'no node "nobody"' in opened.find_element("id", "new-result").text
    age = opened.find_element("css selector", "[data-column=age]")
    age.clear()
    age.send_keys("old")
    opened.find_element("id", "predict").click()
    assert "column age holds old, not a number" in opened.find_element("id", "new-result").text


@needs_browser
def test_nothing_is_asked_for_or_complained_of_and_a_phone_needs_no_sideways_scroll(
    opened: Any,
) -> None:
    assert (
        "broken" not in opened.title
        and opened.execute_script("return document.scripts.length") == 1
    )
    size = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 360
    unnamed = """
const fields = [...document.querySelectorAll("input, select, textarea")];
return fields.filter((own) => !own.labels.length).length"""
    assert opened.execute_script(unnamed) == 0
    assert console(opened) == [] and requests(opened) == []


@needs_browser
@pytest.mark.parametrize("name", ["light", "dark"])
def test_axe_finds_nothing(opened: Any, name: str) -> None:
    scheme(opened, name)
    fill(opened, "node", "p3")
    opened.find_element("css selector", "#known button").click()
    assert axe(opened) == []


# without a browser


def test_text_of_the_run_never_becomes_markup(exported: Path) -> None:
    text = (exported / "net.html").read_text()
    assert HOSTILE not in text and text.count("</script>") == 1 and "@@" not in text
    assert re.search(r"""(src|href)=["'](?!data:)""", text) is None
    assert (
        "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    )


def test_a_large_graph_is_held_in_part_and_the_page_says_so(
    make_graph: MakeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Degrees are those of the whole graph, so a node whose field is held keeps its scores."""
    run = save(tmp_path / "run", make_graph, ("GCNConv",))
    net = native_net(run, "float32")
    monkeypatch.setattr(sampling, "MOST_BYTES", 1000)
    part = page_graph(net)
    assert 1 < part.nodes.size < 30 and part.arrays.degree is not None
    edges, whole = net.model.edges, net.model.run(net.model.stored)
    inner = [
        at
        for at, node in enumerate(part.nodes)
        if np.isin(edges.indices[edges.indptr[node] : edges.indptr[node + 1]], part.nodes).all()
    ]
    assert inner
    got = net.model.run(part.inputs)[inner]
    np.testing.assert_allclose(got, whole[part.nodes[inner]], rtol=1e-4, atol=1e-5)
    assert f"holds {part.nodes.size} of 30 nodes" in to_html(run, tmp_path / "net.html")


def test_no_hub_fills_the_picture() -> None:
    """A star of 50 with a path behind one of its ends: the path is drawn too."""
    from gassip.deploy.numpy_graph import Inputs
    from gassip.graph.checks import clean_edges

    ends = np.array([[0] * 50 + [1, 51, 52], [*range(1, 51), 51, 52, 53]])
    inputs = Inputs(np.zeros((54, 1), dtype=np.float32), clean_edges(ends, None, 54, True))
    same = np.zeros(54, dtype=np.int64)
    assert {51, 52, 53} <= set(drawn_nodes(inputs, 12, same).tolist())
    assert drawn_nodes(inputs, 99, same).size == 54
    assert 40 in drawn_nodes(inputs, 3, (np.arange(54) == 40).astype(int))  # of a label of its own


def test_places_lie_in_the_picture_and_neighbours_lie_close() -> None:
    """Two triangles apart."""
    pairs = np.array([[0, 1, 2, 1, 2, 0, 3, 4, 5, 4, 5, 3], [1, 2, 0, 0, 1, 2, 4, 5, 3, 3, 4, 5]])
    found = places(pairs, 6)
    assert found.min() == 0 and found.max() == 1
    within, across = found[0] - found[1], found[0] - found[4]
    assert np.linalg.norm(within) < np.linalg.norm(across)
    assert places(np.zeros((2, 0), dtype=np.int64), 1).round(4).tolist() == [[0, 0]]


def test_the_command(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", str(exported / "run"), "--format", "html", "--out"]
    assert main([*command, str(exported / "small.html"), "--precision", "int8"]) == 0
    assert "open it in a browser" in capsys.readouterr().out
    assert main([*command, str(exported / "net.html")]) == 2
