"""A headless Chromium for the tests of pages; skipped with a reason where there is none."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
