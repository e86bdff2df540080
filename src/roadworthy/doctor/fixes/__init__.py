"""Safe repairs, made in a copy: the caller's module and file stay as they are."""

from __future__ import annotations

from roadworthy.doctor.fixes.dtypes import as_its_ports_are
from roadworthy.doctor.fixes.repair import captured_in_its_ports, captured_with_fixes

__all__ = ["as_its_ports_are", "captured_in_its_ports", "captured_with_fixes"]
