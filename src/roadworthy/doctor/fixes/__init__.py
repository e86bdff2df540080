"""Safe repairs, made in a copy: the caller's module and file stay as they are."""

from __future__ import annotations

from roadworthy.doctor.fixes.repair import captured_with_fixes

__all__ = ["captured_with_fixes"]
