"""The bytes of every bundle and the text of every refusal that the tests know: a net.

    python -m tests.fingerprints record STORE.json     before the first change
    python -m tests.fingerprints compare STORE.json    after each step; 1 if anything differs

    --suite NAME    one of the suites, or several (tests/fingerprinted)
    --share 1/12    a part of each suite, always the same one
    --workers 2     so many processes at once
    --only TEXT     the cases whose name holds this text
    --add           record what the store does not have, and leave the rest
    --times FILE    writes the seconds of each case

Numbers depend on the processor and on the versions, so the store is kept beside the work, not in
the repository. A refusal names lines of tests: a test that moves its lines changes its text.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fingerprinted.children import BATCH, Result, names, results

# Suite → case → what came of it.
Store = dict[str, dict[str, Result]]
# Suite → what is in `record` and `compare` unless `--suite` says otherwise.
SUITES = (
    "policies", "environments", "good", "refused", "failing", "patients", "people", "generated",
    "checkpoints", "claims",
)  # fmt: skip
LONG = ("aoti",)
# Case → why it is not compared.
UNSTABLE = {
    "claims/test_a_missing_normaliser_is_named_and_not_the_critic": "weights trained on draws of "
    "gymnasium's spaces, which the operating system seeds",
}


def short(name: str) -> str:
    """The name of a case; of a test without its file, which may move."""
    return name.rpartition(".py::")[2]


def in_share(name: str, share: str) -> bool:
    part, of = (int(each) for each in share.split("/"))
    return int(hashlib.sha256(short(name).encode()).hexdigest(), 16) % of == part - 1


def chosen(options: argparse.Namespace, suite: str, every: list[str]) -> list[str]:
    return [
        name for name in every
        if in_share(name, options.share) and options.only in name
        and f"{suite}/{short(name)}" not in UNSTABLE
    ]  # fmt: skip


def made(
    options: argparse.Namespace, store: Store, known: Store, seconds: dict[str, float]
) -> Iterator[str]:
    """Fills the store, a batch at a time, and yields what was done.

    What is known to give nothing is not run again: most tests of a module alone are such cases.
    """
    begin = time.monotonic()
    every = names(options.suite)
    batches = []
    for suite in options.suite:
        cases = [n for n in chosen(options, suite, every[suite]) if n not in store[suite]]
        empty = {name for name in cases if known.get(suite, {}).get(name) == {}}
        store[suite] |= {name: {} for name in empty}
        cases = [name for name in cases if name not in empty]
        batches += [(suite, cases[at : at + BATCH]) for at in range(0, len(cases), BATCH)]
    total, done = sum(len(batch) for _, batch in batches), 0
    with ThreadPoolExecutor(options.workers) as pool:
        found = pool.map(lambda batch: results(*batch), batches)
        for (suite, batch), (new, took) in zip(batches, found, strict=True):
            store[suite] |= new
            seconds |= took
            done += len(batch)
            slowest = max(took, key=lambda name: took[name], default="")
            told = f"{took[slowest]:.0f} s {short(slowest)}" if took else ""
            yield f"{done}/{total} {suite}, {time.monotonic() - begin:.0f} s; slowest: {told}"


def differences(before: dict[str, Result], after: dict[str, Result]) -> Iterator[str]:
    """A line for each case whose files differ, and the difference of each text that does."""
    moved: dict[str, list[str]] = {}
    for name in before.keys() - after.keys():
        moved.setdefault(short(name), []).append(name)
    kept = set()
    for name, now in sorted(after.items()):
        (earlier,) = moved.get(short(name), []) if len(moved.get(short(name), [])) == 1 else [name]
        kept.add(earlier)
        if earlier not in before:
            yield f"{name}: is new"
        else:
            yield from _changed(name, before[earlier], now)
    yield from (f"{name}: is gone" for name in sorted(before.keys() - kept))


def _changed(name: str, before: Result, after: Result) -> Iterator[str]:
    changed = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    is_sum = functools.partial(re.fullmatch, "[0-9a-f]{64}|")
    files = [key for key in changed if is_sum(before.get(key, "")) and is_sum(after.get(key, ""))]
    if files:
        signs = [("+" if f not in before else "-" if f not in after else "") + f for f in files]
        yield f"{name}: {', '.join(signs)}"
    for key in (key for key in changed if key not in files):
        texts = (side.get(key, "").splitlines() for side in (before, after))
        lines = list(difflib.unified_diff(*texts, lineterm="", n=0))[2:]
        yield "\n    ".join([f"{name}: {key}", *(x for x in lines if not x.startswith("@@"))])


def write(path: Path, store: object) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(store, indent=1, sort_keys=True, ensure_ascii=False))
    beside.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=["record", "compare"])
    parser.add_argument("store", type=Path)
    parser.add_argument("--suite", nargs="+", choices=[*SUITES, *LONG], default=list(SUITES))
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--times", type=Path)
    options = parser.parse_args()
    recording = options.verb == "record"
    known: Store = json.loads(options.store.read_text()) if options.add or not recording else {}
    now: Store = {suite: {} for suite in options.suite} | (known if recording else {})
    seconds: dict[str, float] = {}
    for line in made(options, now, known, seconds):
        sys.stderr.write(line + "\n")
        if recording:
            write(options.store, now)
    if options.times:
        write(options.times, seconds)
    if recording:
        return 0
    changed = 0
    for suite in options.suite:
        stored = known.get(suite, {})
        kept = chosen(options, suite, list(stored))
        for line in differences({name: stored[name] for name in kept}, now[suite]):
            changed += 1
            sys.stdout.write(f"{suite}/{line}\n")
    sys.stdout.write(f"{changed} differences in {sum(map(len, now.values()))} cases\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
