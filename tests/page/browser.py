"""A headless Chromium that opens one page after another, and what it asked for and complained of.

It is the system's own browser and driver: nothing is downloaded. LOWGRAPH_BROWSER=required makes a
missing one a failure, where the tests would be skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

REQUIRED = "LOWGRAPH_BROWSER"
_PROGRAMS = ("chromium", "chromedriver")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-device-scale-factor=1", "--hide-scrollbars",
)  # fmt: skip
_SECONDS = 20  # that a page may take for what a test waits for


def missing() -> str:
    """What is not installed of what these tests need, "" if nothing is."""
    left = [name for name in _PROGRAMS if shutil.which(name) is None]
    if importlib.util.find_spec("selenium") is None:
        left.append("selenium (extra `browser`)")
    return ", ".join(left)


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self, profile: Path, size: tuple[int, int] = (1280, 800)) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        # A path given here is what keeps selenium from asking the network for a driver.
        service = Service(
            executable_path=shutil.which("chromedriver"),
            env={**os.environ, "SE_OFFLINE": "true", "SE_AVOID_STATS": "true"},
        )
        self.driver = webdriver.Chrome(options=options, service=service)
        self.resize(*size)

    def close(self) -> None:
        self.driver.quit()

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page itself, without the window's frame."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a page afresh; what was logged before is forgotten."""
        self.driver.get("about:blank")
        self.requests()
        self.errors()
        self.driver.get(f"{page.as_uri()}{'#' if fragment else ''}{fragment}")
        self.settle()

    def run(self, script: str, *arguments: object) -> Any:
        """What a script returns in the page."""
        return self.driver.execute_script(script, *arguments)

    def settle(self) -> None:
        """Wait until what was asked for is drawn: pages draw before the next picture."""
        frame = "requestAnimationFrame"
        self.run(f"return new Promise((then) => {frame}(() => {frame}(() => setTimeout(then))))")

    def all(self, selector: str) -> list[Any]:
        self.settle()
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        self.settle()
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """Of the first element, hidden or not; "" if there is none."""
        script = "return document.querySelector(arguments[0])?.textContent"
        return str(self.run(script, selector) or "")

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait until something holds; what: it in words, for the failure."""
        from selenium.common import StaleElementReferenceException, TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        wait = WebDriverWait(
            self.driver, _SECONDS, 0.02, ignored_exceptions=[StaleElementReferenceException]
        )
        try:
            wait.until(lambda driver: holds())
        except TimeoutException:
            raise AssertionError(f"{what}, in {_SECONDS} s; errors: {self.errors()}") from None

    def requests(self) -> list[str]:
        """Addresses asked for since the last call, but for those that the page's policy blocked."""
        told = [json.loads(one["message"])["message"] for one in self.driver.get_log("performance")]
        sent = [one["params"] for one in told if one["method"] == "Network.requestWillBeSent"]
        failed = [one["params"] for one in told if one["method"] == "Network.loadingFailed"]
        blocked = {one["requestId"] for one in failed if one.get("blockedReason") == "csp"}
        return [one["request"]["url"] for one in sent if one["requestId"] not in blocked]

    def errors(self) -> list[str]:
        """What the console was told since the last call."""
        return [str(one["message"]) for one in self.driver.get_log("browser")]
