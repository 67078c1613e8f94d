"""The page in a real browser, opened from disk (tests/browser.py)."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gassip.cli import main
from gassip.report.report import FILE
from tests.browser import axe, browser, console, requests, scheme

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
WIDTHS = (1200, 360)
# black text on white needs 4.5; what of a page has less, by its computed colours
CONTRAST = """
const light = (c) => { const v = c.match(/[\\d.]+/g).map(Number).slice(0, 3)
  .map((x) => x / 255).map((x) => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
const paper = light(getComputedStyle(document.body).backgroundColor);
const out = [];
for (const own of document.querySelectorAll("h1,h2,h3,p,dt,dd,th,code,button,a,summary,svg text")) {
  const style = getComputedStyle(own), svg = own instanceof SVGElement;
  const ink = light(svg ? style.fill : style.color);
  const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  if (ratio < 4.5) out.push([own.tagName, own.textContent.slice(0, 30), ratio]);
}
return out;
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def resize(driver: Any, width: int, height: int = 900) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture
def opened(driver: Any, made: Path) -> Any:
    resize(driver, 1200)
    console(driver)
    requests(driver)
    driver.get((made / FILE).as_uri())
    return driver


def find(driver: Any, css: str) -> Any:
    return driver.find_element("css selector", css)


def column(driver: Any, of: str, k: int) -> list[str]:
    rows = driver.find_elements("css selector", f"{of} tbody tr")
    return [row.find_elements("css selector", "th,td")[k].text for row in rows]


def test_it_opens_from_disk_without_errors_or_requests(opened: Any, made: Path) -> None:
    assert console(opened) == [] and requests(opened) == []
    assert opened.execute_script("return document.scripts.length") == 2  # the names made none
    assert "alert" in find(opened, "#scores").text


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_screen(opened: Any, width: int) -> None:
    resize(opened, width)
    wide = opened.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    below = opened.execute_script(
        "return document.querySelector('.outcome').getBoundingClientRect().bottom"
    )
    assert below < 900


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_stand_out(opened: Any, name: str) -> None:
    scheme(opened, name)
    assert opened.execute_script(CONTRAST) == []
    ground = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(23, 22, 20)") == (name == "dark")


def test_a_heading_sorts(opened: Any) -> None:
    table = "#scores table.sortable"
    buttons = opened.find_elements("css selector", f"{table} thead button")
    before = column(opened, table, 3)
    buttons[3].click()
    down = [float(text.split("\u00a0")[0].split()[0]) for text in column(opened, table, 3)]
    assert down == sorted(down, reverse=True) and len(down) == len(before) == 3
    buttons[3].send_keys("\n")  # by keyboard
    up = [float(text.split("\u00a0")[0].split()[0]) for text in column(opened, table, 3)]
    assert up == down[::-1]
    heads = opened.find_elements("css selector", f"{table} th[aria-sort]")
    assert [own.get_attribute("aria-sort") for own in heads] == ["ascending"]


def pixels(driver: Any) -> str:
    return str(driver.execute_script("return document.getElementById('sample').toDataURL()"))


def test_the_slider_shows_fewer_edges(opened: Any) -> None:
    slider, said = find(opened, "#kept"), find(opened, "#kept-said")
    first, drawn = said.text, pixels(opened)
    slider.send_keys("\ue011")  # Home
    assert said.text.startswith("0 of ") and first != said.text and pixels(opened) != drawn
    slider.send_keys("\ue014")  # right
    assert said.text.startswith("1 of ")


def test_a_node_tells_its_name(opened: Any) -> None:
    from selenium.webdriver import ActionChains

    resize(opened, 1200)
    canvas, said = find(opened, "#sample"), find(opened, "#node-said")
    facts = json.loads(opened.execute_script("return document.getElementById('sample-data').text"))
    wide, high = canvas.size["width"], canvas.size["height"]
    x, y = 18 + facts["x"][0] / 1000 * (wide - 36), 18 + facts["y"][0] / 1000 * (high - 36)
    opened.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas
    )
    ActionChains(opened).move_to_element_with_offset(canvas, x - wide / 2, y - high / 2).perform()
    assert facts["classes"][facts["label"][0]] in said.text
    assert facts["id"][0] in said.text and f"{facts['sure'][0]} %" in said.text
    opened.execute_script("arguments[0].focus()", canvas)
    before = said.text
    canvas.send_keys("\ue014")  # the next node by keyboard
    assert said.text and said.text != before


def test_it_prints_on_few_sheets(opened: Any) -> None:
    """From the first sheet on; tables side by side stay apart."""
    sheet = {"paperWidth": 8.27, "paperHeight": 11.69}
    printed = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", sheet)["data"])
    assert len(re.findall(rb"/Type */Page\b(?!s)", printed)) <= 10
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    resize(opened, 718)  # A4 without its margins
    left, right = (
        opened.execute_script(f"return document.querySelector('{css}').getBoundingClientRect()")
        for css in (".columns>:first-child table", ".columns .side")
    )
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert left["right"] <= right["left"] and left["top"] > 0


def test_a_command_is_copied_or_selected(opened: Any) -> None:
    button = find(opened, "button.copy")
    button.click()
    opened.implicitly_wait(0)
    for _ in range(20):
        if button.text in ("Copied", "Selected"):
            break
    assert button.text in ("Copied", "Selected")


def test_compare_opens_too(driver: Any, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "compare.html"
    assert main(["compare", str(made), str(made), "--out", str(out)]) == 0
    driver.get(out.as_uri())
    assert console(driver) == [] and requests(driver) == []
    assert driver.execute_script("return document.querySelectorAll('#runs tbody tr').length") == 2


@pytest.mark.parametrize("name", ["light", "dark"])
def test_axe_finds_nothing(opened: Any, name: str, made: Path, tmp_path: Path) -> None:
    scheme(opened, name)
    assert axe(opened) == []
    out = tmp_path / "compare.html"
    assert main(["compare", str(made), str(made), "--out", str(out)]) == 0
    opened.get(out.as_uri())
    assert axe(opened) == []
