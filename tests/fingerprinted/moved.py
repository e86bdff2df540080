"""Tests that have moved since the net was recorded: what names them is compared as it was then.

A manifest names the module of a policy, and a refusal the file of its line.
"""

from __future__ import annotations

import re

# Module now → as it was recorded, where its file has another name or left its folder alone.
FILES = {
    "backends.test_translations": "failing.test_translations",
    "capture.failures.test_failures": "failing.test_failing",
    "capture.idioms": "capture.natural",
    "capture.test_idioms": "capture.test_natural",
    "capture.test_user_reports": "capture.test_strangers",
    "environment.harmless": "environment.standing",
    "environment.hidden_inputs": "environment.disguised",
    "environment.late_changes": "environment.moving",
    "environment.test_hidden_inputs": "environment.test_disguised",
    "environment.test_late_changes": "environment.test_moving",
    "environment.test_rounding": "environment.test_measured",
    "environment.test_simulator_habits": "environment.test_in_the_way",
    "environment.test_ticks": "environment.test_between",
    "environment.test_untaken_branches": "environment.test_unvisited",
    "environment.untaken_branches": "environment.unvisited",
    "rules.test_fix": "failing.test_fix",
}
FOLDERS = {
    "capture.class_styles": "styles",
    "capture.failures": "failing",
    "deploy.emit": "emitting",
    "deploy.many": "many",
    "every_policy": "contract",
    "random_policies": "generator",
    "rules": "doctor",
    "show.playground": "playground",
    "show": "reporting",
    "targets": "contract",
    "user_policies": "people",
    "verdicts": "acceptance",
}
# Files come first: what is left in a folder moved with it.
MOVED = FILES | FOLDERS


def as_recorded(text: str) -> str:
    """The text with the names of modules, and of their files, as they were."""
    for now, then in MOVED.items():
        for dot in (".", "/"):
            new, old = (f"tests.{name}".replace(".", dot) for name in (now, then))
            text = re.sub(rf"\b{re.escape(new)}\b", old, text)
    for now, then in FILES.items():
        new, old = (name.rpartition(".")[2] for name in (now, then))
        text = re.sub(rf"(?<![\w/]){new}\.py\b", f"{old}.py", text)
    return text
