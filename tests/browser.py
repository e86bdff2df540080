"""A real browser for tests: Debian's Chromium, headless, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

INSTALL = "apt-get install -y --no-install-recommends chromium"
# As root and without a screen, and without the connections that it opens of its own accord.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a worker."""
    place = shutil.which("chromium")
    assert place, f"these tests need Chromium: {INSTALL}"
    from playwright.sync_api import sync_playwright  # with the frameworks, not with `make test`

    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=place, args=[*ARGUMENTS])
        yield launched
        launched.close()


@contextmanager
def opened(browser: Any, file: Path, *, dark: bool = False, wait: str = "body") -> Iterator[Any]:
    """The page of a file on disk; whatever it says on its console is an error."""
    page = browser.new_page(
        viewport={"width": 1100, "height": 900}, color_scheme="dark" if dark else "light"
    )
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url[:80]}"))
    try:
        page.goto(file.resolve().as_uri())
        page.wait_for_selector(wait, timeout=300_000, state="attached")
        yield page
        assert said == []
    finally:
        page.close()


# The lowest contrast of any visible text to its ground, and that text: WCAG's formula.
CONTRAST = """() => {
  const bent = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) =>
    0.2126 * bent(r / 255) + 0.7152 * bent(g / 255) + 0.0722 * bent(b / 255);
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0.99) return found;
    }
    return [255, 255, 255];
  };
  let worst = [99, ""];
  let count = 0;
  for (const element of document.querySelectorAll("body *")) {
    const texts = [...element.childNodes].filter((each) => each.nodeType === 3);
    if (!texts.some((each) => each.textContent.trim()) || !element.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = parse(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    count += 1;
    if (ratio < worst[0]) worst = [ratio, element.outerHTML.slice(0, 120)];
  }
  return [...worst, count];
}"""
