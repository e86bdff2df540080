"""Kernels: what no elementwise loop can be; each is a function that returns lines of C."""

from __future__ import annotations

from functools import cache

from roadworthy.targets.c.kernels import dense, rows, whole


@cache
def functions() -> dict[str, str]:
    """Name → text of every kernel, in the order in which C must see them."""
    return {**whole.functions(), **dense.functions(), **rows.functions()}
