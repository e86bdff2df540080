"""What a bundle was made from, as a person asks it: file, normaliser, actions, assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roadworthy.show.page import section
from roadworthy.show.tables import table
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.html import Html


def origin_section(bundle: Bundle) -> Html | None:
    """What decides over the actions besides the weights, and who says so; None if nothing does."""
    rows = list(_rows(bundle))
    if not rows:
        return None
    return section(
        "origin",
        "What it was made from",
        table(("what", "value", "who says so"), rows, caption="Besides the weights"),
    )


def normalizers(bundle: Bundle) -> str:
    """The normaliser of each input in a few words; `none` where there is none."""
    found = _recipe(bundle).get("normalizers", {})
    return ", ".join(f"{port}: {_normalizer(each)}" for port, each in found.items()) or "none"


def assumptions(bundle: Bundle) -> str:
    """What somebody assumed of a checkpoint at the export; empty where nothing was."""
    facts = _recipe(bundle).get("checkpoint", {}).get("facts", ())
    return ", ".join(f"{each['name']}={each['value']}" for each in facts if _is_assumed(each))


def _rows(bundle: Bundle) -> Iterator[tuple[str, str, str]]:
    recipe = _recipe(bundle)
    checkpoint = recipe.get("checkpoint", {})
    for key in ("framework", "version", "algorithm", "architecture"):
        if checkpoint.get(key):
            yield key, str(checkpoint[key]), "the file"
    for each in checkpoint.get("facts", ()):
        who = "ASSUMED" if _is_assumed(each) else str(each["source"])
        yield str(each["name"]), str(each["value"]), who
    if "normalizers" in recipe:
        yield "normaliser in front", normalizers(bundle), "the export"
    for step in recipe.get("action", ()):
        yield "behind the network", str(step.get("kind", step)), "the export"
    if recipe.get("ignore"):
        yield "ignored", ", ".join(map(str, recipe["ignore"])), "the export"


def _normalizer(each: Any) -> str:
    if not isinstance(each, dict):
        return str(each)
    count = len(each["mean"]) if isinstance(each.get("mean"), list) else 1
    clip = f", clipped to ±{each['clip']:g}" if each.get("clip") else ""
    return f"{each.get('kind', 'a module')} over {count} element{'s' * (count != 1)}{clip}"


def _is_assumed(fact: Any) -> bool:
    return bool(fact["source"] == "assumed")


def _recipe(bundle: Bundle) -> dict[str, Any]:
    found: dict[str, Any] = bundle.manifest.get("recipe", {})
    return found
