"""The registry of failing exports."""

from __future__ import annotations

from tests.capture.failures.case import Case
from tests.capture.failures.modules import MODULES
from tests.capture.failures.operators import OPERATORS
from tests.capture.failures.values import VALUES

CASES: dict[str, Case] = VALUES | OPERATORS | MODULES
