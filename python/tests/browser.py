"""A headless Chromium behind its driver, over plain HTTP of the standard library."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HANGS_S = 300
"""Far longer than anything here takes on a busy machine: only what hangs is to be ended."""

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def missing_programs() -> list[str]:
    """Programs that the browser tests need and that are not installed."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


class Browser:
    """One page at a time."""

    def __init__(self, address: str) -> None:
        self._address = address
        capabilities = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": []},
        }
        self._capabilities = capabilities
        self._session = ""

    def start(self, profile: Path) -> None:
        arguments = [*SWITCHES, f"--user-data-dir={profile}"]
        self._capabilities["goog:chromeOptions"]["args"] = arguments  # type: ignore[index]
        body = {"capabilities": {"alwaysMatch": self._capabilities}}
        self._session = f"/session/{self._request('POST', '/session', body)['sessionId']}"

    def open(self, page: Path, *, width_px: int, dark: bool, charts: bool = True) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width_px,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self._request("POST", f"{self._session}/url", {"url": page.resolve().as_uri()})
        deadline_s = time.monotonic() + HANGS_S
        while (
            charts and self.evaluate("return document.documentElement.dataset.charts || ''") == ""
        ):
            assert time.monotonic() < deadline_s, f"the charts were not drawn in {HANGS_S} s"
            time.sleep(0.05)

    def evaluate(self, script: str) -> Any:
        body = {"script": script, "args": []}
        return self._request("POST", f"{self._session}/execute/sync", body)

    def cdp(self, command: str, **parameters: Any) -> Any:
        body = {"cmd": command, "params": parameters}
        return self._request("POST", f"{self._session}/goog/cdp/execute", body)

    def console(self) -> list[str]:
        entries = self._request("POST", f"{self._session}/se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries]

    def screenshot(self, target: Path, *, whole_page: bool = False) -> None:
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=whole_page)
        target.write_bytes(base64.b64decode(shot["data"]))

    def quit(self) -> None:
        if self._session:
            self._request("DELETE", self._session)

    def _request(self, method: str, path: str, body: object | None = None) -> Any:
        request = urllib.request.Request(
            self._address + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=HANGS_S) as answer:
            return json.load(answer)["value"]


@contextmanager
def running_browser(folder: Path) -> Iterator[Browser]:
    """A browser with a fresh profile below `folder`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    browser = Browser(f"http://127.0.0.1:{port}")
    try:
        deadline_s = time.monotonic() + HANGS_S
        while True:
            try:
                browser.start(folder / "profile")
                break
            except OSError:
                assert time.monotonic() < deadline_s, "the browser did not start"
                time.sleep(0.2)
        yield browser
    finally:
        try:
            browser.quit()
        finally:
            driver.terminate()
            driver.wait(timeout=HANGS_S)
