"""Cases are made in child processes, a batch in each: one that crashes or hangs ends no other.

python -m tests.fingerprinted.children SUITE FILE    the cases' names as JSON from stdin
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Result = dict[str, str]
BATCH = 40
LIMIT_S = 400.0
ROOT = Path(__file__).parents[2]


def names(suites: list[str]) -> dict[str, list[str]]:
    """Suite → its cases, in its order."""
    lines = _child("names", suites)
    return {line["suite"]: line["names"] for line in lines if "suite" in line}


def results(suite: str, batch: list[str]) -> tuple[dict[str, Result], dict[str, float]]:
    """What comes of each case, and its seconds. One at which a child ends is written down so."""
    done: dict[str, Result] = {}
    begun_s, seconds = 0.0, {}
    while missing := [name for name in batch if name not in done]:
        begun, ended = missing[0], "crashed"
        for line in _child(suite, missing):
            if "begin" in line:
                begun, begun_s = line["begin"], line["at_s"]
            elif "ended" in line:
                ended = line["ended"]
            else:
                done[line["name"]] = line["result"]
                seconds[line["name"]] = line["at_s"] - begun_s
        if any(name not in done for name in missing):
            done.setdefault(begun, {"ended": ended})
    return done, seconds


def _child(suite: str, batch: list[str]) -> list[dict[str, Any]]:
    """The lines that a child wrote, and how it ended."""
    with tempfile.TemporaryDirectory() as scratch:
        # Answers that a cache remembers from elsewhere would be another run's.
        usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        variables = {
            "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONHASHSEED": "0",
            "COLUMNS": "100", "ZIG_GLOBAL_CACHE_DIR": str(usual / "zig"),
        }  # fmt: skip
        own = {"XDG_CACHE_HOME": f"{scratch}/cache", "TMPDIR": scratch}
        file = Path(scratch) / "lines"
        file.touch()
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.fingerprinted.children", suite, str(file)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=ROOT, env=variables | os.environ | own, start_new_session=True,
        )  # fmt: skip
        assert child.stdin is not None
        child.stdin.write(json.dumps(batch).encode())
        child.stdin.close()
        ended = _awaited(child, file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [*lines, {"ended": ended}]


def _awaited(child: subprocess.Popen[bytes], file: Path) -> str:
    """How the child ended; one that finishes no case for too long is ended here."""
    size, since = 0, time.monotonic()
    while child.poll() is None:
        time.sleep(0.1)
        if (now := file.stat().st_size) != size:
            size, since = now, time.monotonic()
        if time.monotonic() - since > LIMIT_S:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return f"not within {LIMIT_S:.0f} s"
    return f"exit code {child.returncode}"


def main(suite: str, file: str) -> None:
    """What a child does."""
    from tests.fingerprinted import claims, suites
    from tests.fingerprinted.results import seen

    def write(**line: Any) -> None:
        with Path(file).open("a") as stream:
            stream.write(json.dumps(line | {"at_s": time.monotonic()}) + "\n")

    batch = json.load(sys.stdin)
    if suite == "names":
        for each in batch:
            write(
                suite=each, names=claims.names() if each == "claims" else [*suites.SUITES[each]()]
            )
    elif suite == "claims":
        folder = Path(file).parent.resolve()
        claims.run(
            batch, folder, lambda name: write(begin=name), lambda n, r: write(name=n, result=r)
        )
    else:
        cases = suites.SUITES[suite]()
        for name in batch:
            write(begin=name)
            write(name=name, result=seen(cases[name]))


if __name__ == "__main__":
    main(*sys.argv[1:])
