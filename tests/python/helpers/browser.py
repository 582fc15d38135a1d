"""Looks at a page in headless Chromium: what it says on its console, what is missing, what is too wide."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESK = (390, 844), (1280, 900)
# First on the page, so that it hears of all that goes wrong; its answer is the document's title.
LISTEN = """<script>
const faults = [];
addEventListener("error", event => faults.push(String(event.message || event.target.outerHTML)), true);
console.error = (...words) => faults.push(words.join(" "));
addEventListener("load", () => {
  const box = element => element.getBoundingClientRect();
  const seen = element => box(element).width > 50 && box(element).height > 50;
  const images = [...document.images];
  document.title = JSON.stringify({
    faults,
    missing: images.filter(image => !image.complete || image.naturalWidth === 0).length,
    drawings: [...document.querySelectorAll("figure svg")].map(seen),
    images: images.length,
    tables: document.querySelectorAll("table").length,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    text: parseFloat(getComputedStyle(document.body).fontSize),
  });
});
</script>"""


def browser() -> str:
    """The program; an error if there is none, because a page that nobody looked at is not tested."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found is not None, "no Chromium: apt-get install chromium"
    return found


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """With a profile of its own."""
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [browser(), *common, profile, "--enable-logging=stderr", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)


def look(page: Path, size: tuple[int, int], folder: Path) -> dict[str, Any]:
    """What the browser saw, and `console`: what it logged of the page."""
    listening = folder / "listening.html"
    html = page.read_text(encoding="utf-8")
    listening.write_text(html.replace("<head>", f"<head>{LISTEN}", 1), encoding="utf-8")
    ended = run([f"--window-size={size[0]},{size[1]}", "--dump-dom", listening.as_uri()], folder)
    title = re.search(r"<title>(.*?)</title>", ended.stdout, re.DOTALL)
    assert title is not None, ended.stderr[-2000:]
    seen: dict[str, Any] = json.loads(unescape(title[1]))
    seen["console"] = [line for line in ended.stderr.splitlines() if "CONSOLE" in line]
    return seen


def print_page(page: Path, folder: Path) -> bytes:
    """As a PDF."""
    target = folder / "page.pdf"
    run([f"--print-to-pdf={target}", page.as_uri()], folder)
    return target.read_bytes()
