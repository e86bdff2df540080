"""An export that must be refused, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roadworthy as rw
from roadworthy.errors import Finding

Refuse = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def refuse(tmp_path: Path) -> Refuse:
    """The findings of a refused export, which leaves neither a folder nor a stray file."""

    def findings(module: Any, **description: Any) -> tuple[Finding, ...]:
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.export(rw.Source(module, **description), tmp_path / "a" / "bundle")
        assert list(tmp_path.iterdir()) in ([], [tmp_path / "a"])
        assert list(tmp_path.rglob("*")) in ([], [tmp_path / "a"])
        return caught.value.findings

    return findings
