"""The registry of failing exports."""

from __future__ import annotations

from tests.failing.case import Case
from tests.failing.modules import MODULES
from tests.failing.operators import OPERATORS
from tests.failing.values import VALUES

CASES: dict[str, Case] = VALUES | OPERATORS | MODULES
