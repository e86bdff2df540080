"""The playground in a real browser: the same actions, no error, and reachable by everyone."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.spec.samples import draw_ordinary
from tests.browser import CONTRAST, opened

pytestmark = pytest.mark.slow

READY = "body[data-ready]"
# Every kind of port, memory, rate and dtype that the page has code for.
KINDS = (
    "walker", "lstm", "keeps_hidden", "nonzero_memory", "masked_multi_discrete", "half_precision",
    "squashed_gaussian", "fixed_batch_lstm", "transformer_any_length", "integer_clock", "odd_names",
    "pd_four_ticks",
)  # fmt: skip
AA = 4.5

ENGINES = ("onnx", "wasm")

Sites = Callable[[str, str], tuple[Path, Path]]

PLAY = """async ([inputs, steps]) => {
  const { arrays, policy } = Roadworthy;
  policy.reset();
  const found = [];
  for (let step = 0; step < steps; step++) {
    const feeds = {};
    for (const { name, dtype } of policy.signature.inputs) {
      feeds[name] = arrays.cast(dtype, inputs[name][step]);
    }
    const outputs = Object.entries(await policy.step(feeds, 1));
    const plain = outputs.map(([name, { dtype, data }]) => [name, arrays.numbers(dtype, data)]);
    found.push(Object.fromEntries(plain));
  }
  return found;
}"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", KINDS)
def test_golden_steps_hold_in_the_browser(
    browser: Any, site_of: Sites, name: str, engine: str
) -> None:
    with opened(browser, site_of(name, engine)[1], wait=READY) as page:
        said = page.inner_text("#said")
        assert page.get_attribute("#engine", "data-engine") == engine
        assert page.inner_text("#verdict") == "passed", said
        assert "recorded steps of the original, replayed in this browser" in said
        page.click("#step")
        page.wait_for_function(
            "document.getElementById('counter').textContent.startsWith('step 2')"
        )


def test_an_image_has_no_sliders_and_that_is_said(browser: Any, site_of: Sites) -> None:
    with opened(browser, site_of("image_and_vector", "onnx")[1], wait=READY) as page:
        assert page.inner_text("#verdict") == "passed"
        held = page.inner_text("#inputs .held")
        assert held == "obs.image, uint8 batch × 12 × 12 × 3: the first recorded step is fed"
        assert page.locator("#inputs .slider").count() == 5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["walker", "lstm", "squashed_gaussian", "masked_multi_discrete"])
def test_two_hundred_steps_are_those_of_python(
    browser: Any, site_of: Sites, name: str, engine: str
) -> None:
    folder, index = site_of(name, engine)
    policy = rw.load(folder)
    drawn = draw_ordinary(policy.signature, np.random.default_rng(3), steps=200, rows=1)
    flat = {port: values.reshape(200, -1).tolist() for port, values in drawn.items()}
    with opened(browser, index, wait=READY) as page:
        played = page.evaluate(PLAY, [flat, 200])
    policy.reset()
    furthest = 0.0
    for step, got in enumerate(played):
        expected = policy.step({port: values[step] for port, values in drawn.items()})
        for port, values in expected.items():
            gap = np.abs(np.asarray(got[port]) - values.reshape(-1).astype(np.float64))
            furthest = max(furthest, float(gap.max()))
    assert len(played) == 200
    assert furthest <= 1e-5


def test_damaged_file_fails_its_golden_steps(browser: Any, site_of: Sites, tmp_path: Path) -> None:
    """The verdict can be bad: with the weights of another seed it is."""
    import shutil

    import torch

    shutil.copytree(site_of("walker", "onnx")[1].parent, tmp_path / "site")
    torch.manual_seed(1)
    layers = torch.nn.Linear(48, 128), torch.nn.ELU(), torch.nn.Linear(128, 12)
    rw.export(torch.nn.Sequential(*layers), tmp_path / "other", example={"obs": torch.zeros(1, 48)})
    other = rw.web(tmp_path / "other", tmp_path / "other-site", engine="onnx")
    mine, theirs = ((each / "bundle.js").read_text() for each in (tmp_path / "site", other))
    model = mine.partition('"model":"')[2].partition('"')[0]
    changed = mine.replace(model, theirs.partition('"model":"')[2].partition('"')[0])
    (tmp_path / "site" / "bundle.js").write_text(changed)
    with opened(browser, tmp_path / "site" / "index.html", wait=READY) as page:
        assert page.inner_text("#verdict") == "failed"
        assert page.inner_text("#said").startswith("actions at step 0: recorded")


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a policy that pushes the cart to where the pole leans."""
    import torch

    layer = torch.nn.Linear(4, 2, bias=False)
    layer.weight.data = torch.tensor([[0.0, 0.0, -1.0, -0.4], [0.0, 0.0, 1.0, 0.4]])
    folder = tmp_path_factory.mktemp("cartpole")
    rw.export(layer, folder / "bundle", example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
    return (
        rw.web(folder / "bundle", folder / "site", env="CartPole-v1", engine="onnx") / "index.html"
    )


def test_policy_balances_the_pole_in_the_page_until_it_is_pushed(
    browser: Any, cartpole: Path
) -> None:
    with opened(browser, cartpole, wait=READY) as page:
        page.click("#run")
        page.wait_for_function(
            "/step (\\d+), return/.exec(document.getElementById('counter').textContent)?.[1] > 60",
            timeout=300_000,
        )
        box = page.locator("#scene").bounding_box()
        page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 50)
        page.mouse.down()
        page.wait_for_function(
            "document.getElementById('last').textContent !== ''", timeout=300_000
        )
        page.mouse.up()
        assert page.inner_text("#last").startswith("episode 1: return")


def test_everything_is_reached_and_worked_by_keys(browser: Any, cartpole: Path) -> None:
    with opened(browser, cartpole, wait=READY) as page:
        reached = set()
        for _ in range(12):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id"))
        assert {"scene", "by-env", "run", "step", "reset"} <= reached
        page.focus("#by-env")
        page.keyboard.press("ArrowRight")  # now the sliders are the visitor's
        page.focus("#input-0")
        before = page.input_value("#input-0")
        page.keyboard.press("ArrowRight")
        assert page.input_value("#input-0") != before
        page.focus("#step")
        steps = page.inner_text("#counter")
        page.keyboard.press("Enter")
        page.wait_for_function(f"document.getElementById('counter').textContent !== {steps!r}")
        unnamed = (
            "[...document.querySelectorAll('input, button, canvas[tabindex]')].filter((each) => "
        )
        unnamed += (
            "!(each.labels?.length || each.textContent || each.getAttribute('aria-label'))).length"
        )
        assert page.evaluate(unnamed) == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_of_the_playground_has_contrast(browser: Any, cartpole: Path, dark: bool) -> None:
    with opened(browser, cartpole, dark=dark, wait=READY) as page:
        ratio, where, count = page.evaluate(CONTRAST)
        assert count > 10
        assert ratio >= AA, where


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["walker", "lstm", "pd_four_ticks"])
def test_report_opens_without_a_word_and_with_contrast(
    browser: Any, site_of: Sites, tmp_path: Path, name: str, dark: bool
) -> None:
    place = rw.report(site_of(name, "onnx")[0], tmp_path / "report.html")
    with opened(browser, place, dark=dark, wait="nav a") as page:
        assert page.inner_text("#verdict") == "passed"
        assert page.locator("nav a").count() == page.locator("main > section").count() > 8
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        ratio, where, count = page.evaluate(CONTRAST)
        assert count > 100
        assert ratio >= AA, where
        page.hover("svg.hover")
        assert page.locator(".readout").first.inner_text().startswith("step ")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_report_of_a_flight_opens_without_a_word_and_with_contrast(
    browser: Any, site_of: Sites, tmp_path: Path, dark: bool
) -> None:
    folder = site_of("lstm", "onnx")[0]
    with rw.FlightRecorder(rw.load(folder), tmp_path / "flight.npz", memory_every=5) as policy:
        drawn = draw_ordinary(policy.signature, np.random.default_rng(3), steps=50, rows=1)
        for step in range(50):
            policy.step({port: 1.5 * values[step] for port, values in drawn.items()})
    place = rw.report(tmp_path / "flight.npz", tmp_path / "flight.html", bundle=folder)
    with opened(browser, place, dark=dark, wait="nav a") as page:
        assert page.inner_text("#verdict") in ("passed", "look closer")
        assert "50 steps repeated" in page.inner_text("header")
        assert page.locator("nav a").count() == page.locator("main > section").count() > 6
        ratio, where, count = page.evaluate(CONTRAST)
        assert count > 50
        assert ratio >= AA, where
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_attack_in_a_name_stays_text_in_the_browser(browser: Any, tmp_path: Path) -> None:
    import torch

    attack = "<img src=x onerror=document.title='broken'>"
    about = {attack: rw.About(elements=(attack, "</script><script>document.title='broken'//"))}
    source = rw.Source(torch.nn.Linear(2, 1), example={attack: torch.zeros(1, 2)}, about=about)
    rw.export(source, tmp_path / "odd")
    pages = (
        rw.report(tmp_path / "odd", tmp_path / "r.html"),
        rw.web(tmp_path / "odd", tmp_path / "s", engine="onnx"),
    )
    for place, wait in ((pages[0], "nav a"), (pages[1] / "index.html", READY)):
        with opened(browser, place, wait=wait) as page:
            assert page.title() != "broken"
            assert page.inner_text("#verdict") == "passed"


def printed_colours(pdf: bytes) -> set[tuple[int, ...]]:
    """The colours that a PDF fills and strokes with."""
    found: set[tuple[int, ...]] = set()
    for packed in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        with suppress(zlib.error):  # a font, or a picture
            numbers = re.findall(
                rb"([\d.]+) ([\d.]+) ([\d.]+) (?:rg|RG)\b", zlib.decompress(packed)
            )
            found |= {tuple(round(255 * float(each)) for each in colour) for colour in numbers}
    return found


@pytest.mark.parametrize("name", ["walker", "lstm"])
def test_paper_gets_the_colours_of_light_screens(
    browser: Any, site_of: Sites, tmp_path: Path, name: str
) -> None:
    place = rw.report(site_of(name, "onnx")[0], tmp_path / "report.html")
    with opened(browser, place, dark=True, wait="nav a") as page:
        colours = printed_colours(page.pdf(format="A4"))
        assert page.locator("details.episode:not([open])").count() == 0
    assert (10, 108, 168) in colours  # the blue of light screens
    assert (95, 181, 238) not in colours  # and not that of dark ones
