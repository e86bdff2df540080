"""Safe repairs, made in a copy: the caller's module and file stay as they are."""

from __future__ import annotations

from roadworthy.rules.fixes.dtypes import as_its_ports_are
from roadworthy.rules.fixes.repair import captured_in_its_ports, captured_with_fixes

__all__ = ["as_its_ports_are", "captured_in_its_ports", "captured_with_fixes"]
