"""Every case of every family."""

from __future__ import annotations

import importlib

from tests.user_policies.cases import Case

FAMILIES = (
    "sb3", "rsl_rl", "skrl", "rl_games", "torchrl", "cleanrl", "locomotion", "world_models",
    "imitation", "attention", "memory", "recurrent", "dtypes", "wrappers", "structure", "geometry",
)  # fmt: skip


def everyone() -> dict[str, Case]:
    """The cases by name; no framework is imported before a policy is made."""
    modules = [importlib.import_module(f"tests.user_policies.{name}") for name in FAMILIES]
    return {str(case): case for module in modules for case in module.people.cases}
