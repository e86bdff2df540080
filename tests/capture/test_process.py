"""What an export leaves behind in its process: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

AFTERWARDS = """
import builtins, sys, torch
import roadworthy as rw

before = dict(vars(builtins))
rw.export(torch.nn.Linear(3, 2), sys.argv[1], example={"obs": torch.zeros(1, 3)}, progress=False)
assert dict(vars(builtins)) == before


@torch.compile(fullgraph=True, backend="eager")
def times(x, parts):
    return x * len(parts)


assert times(torch.ones(2), [1, 2, 3]).tolist() == [3, 3]
"""


def test_torch_compile_works_after_an_export(tmp_path: Path) -> None:
    """Dynamo once took our `len` for the builtin one, and did not know that one any more."""
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS, str(tmp_path / "b")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
