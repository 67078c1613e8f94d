"""A headless Chromium for the tests of pages; skipped with a reason where there is none."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def why_not() -> str | None:
    """Why there is no browser, or None."""
    for tool in ("chromium", "chromedriver"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    return None if find_spec("selenium") else "selenium is not installed"


@contextmanager
def browser(profile: Path, width: int = 1280, height: int = 900) -> Iterator[Any]:
    """A driver that records the console and every request."""
    if reason := why_not():
        pytest.skip(reason)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


def axe(driver: Any) -> list[tuple[str, str]]:
    """What axe-core finds wrong with the open page: the rule, and the first place."""
    driver.execute_script(axe_source().read_text(encoding="utf-8"))
    found = driver.execute_async_script("axe.run().then(arguments[0])")
    assert len(found["passes"]) > 10
    return [(own["id"], own["nodes"][0]["html"][:200]) for own in found["violations"]]


@cache
def axe_source() -> Path:
    """axe.min.js: in the folder that AXE names, or installed by npm into a cache of the user."""
    home = Path.home() / ".cache" / "gassip-tests"
    folder = Path(os.environ.get("AXE", home / "node_modules" / "axe-core"))
    script = folder / "axe.min.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None or "AXE" in os.environ:
        pytest.skip(f"{script} is not there, and there is no npm to install axe-core")
    words = [npm, "install", "--silent", "--fetch-retries=0", "--prefix", str(home), "axe-core@4"]
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"axe-core could not be installed by npm: {error}")
    return script


def scheme(driver: Any, name: str) -> None:
    """light or dark, as the reader's machine is."""
    features = [{"name": "prefers-color-scheme", "value": name}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def console(driver: Any) -> list[str]:
    return [str(entry["message"]) for entry in driver.get_log("browser")]


def requests(driver: Any) -> list[str]:
    """Addresses asked for, but for files, data and the browser's own pages."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [
        url for url in found if not url.startswith(("file:", "data:", "blob:", "about:", "chrome:"))
    ]
