"""The SHA-256 of every file of every bundle that the tests know: the guard rail of a refactoring.

    python -m tests.fingerprints before.json          before the first change
    python -m tests.fingerprints before.json --check  after each step

Numbers depend on the processor and on the versions, so the file is kept beside the work, not in
the repository.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import roadworthy as rw
from tests.environment.environments import ENVIRONMENTS
from tests.policies import CASES


def fingerprints() -> dict[str, dict[str, str]]:
    """Policy or environment → file → SHA-256."""
    made: dict[str, Callable[[Path], object]] = {
        f"policy {name}": functools.partial(_export_policy, name) for name in CASES
    } | {
        f"environment {name}": functools.partial(_export_environment, name) for name in ENVIRONMENTS
    }
    found = {}
    for name, export in made.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "bundle"
            export(folder)
            lines = (folder / "SHA256SUMS").read_text().splitlines()
            found[name] = {line[66:]: line[:64] for line in lines}
        sys.stderr.write(f"{name}\n")
    return found


def _export_policy(name: str, folder: Path) -> None:
    rw.export(CASES[name].make(), folder)


def _export_environment(name: str, folder: Path) -> None:
    rw.export_environment(*ENVIRONMENTS[name](), folder)


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """`bundle/file` for each file that is not what it was."""
    return [
        f"{name}/{file}"
        for name in sorted({*before, *after})
        for file in sorted({*before.get(name, {}), *after.get(name, {})})
        if before.get(name, {}).get(file) != after.get(name, {}).get(file)
    ]


def main() -> int:
    store, *flags = sys.argv[1:]
    found = fingerprints()
    if "--check" not in flags:
        Path(store).write_text(json.dumps(found, indent=1))
        return 0
    changed = differences(json.loads(Path(store).read_text()), found)
    sys.stdout.write("\n".join([*changed, f"{len(changed)} files differ"]) + "\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
