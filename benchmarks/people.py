"""What comes of the policies in tests/user_policies: the first call, its hint, and 200 steps.

python benchmarks/people.py                  # all of them: results/people.json, docs/people.md
python benchmarks/people.py --only skrl      # those whose name has it, shown only
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

# Few threads that wait: the policies are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import machine

from tests.user_policies.everyone import everyone
from tests.user_policies.trying import tried

OUTCOMES = ("first call", "after one hint", "refused", "traceback", "wrong certificate")
RESULTS = machine.RESULTS / "people.json"
DOCS = Path(__file__).parent.parent / "docs" / "people.md"
WORDS = """# Policies as people have them

`python benchmarks/people.py` builds {number} policies in the shapes that people have them in: from
the classes of Stable-Baselines3, sb3-contrib, rsl_rl, skrl, rl_games and TorchRL themselves, and in
the shape of what is published as code beside a paper. Each is exported by the first call that
somebody new would write. Where that is refused, the hint of the refusal is followed once. What
comes out is loaded and stepped beside the original: 200 steps with resets, at batches 1 and 3.

"""


Rows = dict[str, dict[str, Any]]


def table(rows: Rows) -> str:
    """The numbers by family."""
    families = dict.fromkeys(name.partition(": ")[0] for name in rows)
    lines = ["| family | n | " + " | ".join(OUTCOMES) + " |", "|---" * 7 + "|"]
    for family in [*families, "all"]:
        counts = Counter(
            row["outcome"]
            for name, row in rows.items()
            if family in (name.partition(": ")[0], "all")
        )
        cells = [str(counts.total()), *(str(counts[each]) for each in OUTCOMES)]
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def hints(rows: Rows) -> str:
    """What was refused at first, and the keywords of the second call."""
    lines = ["| policy | refused with | the second call adds |", "|---|---|---|"]
    for name, row in rows.items():
        if row["code"]:
            second = f"`{row['second']}`" if row["second"] else "–"
            lines.append(f"| {name} | {row['code']} | {second} |")
    return "\n".join(lines) + "\n"


def stored() -> Rows:
    """The results so far: each is written as soon as it is there."""
    rows: Rows = json.loads(RESULTS.read_text())["policies"]
    return rows


def written(rows: Rows) -> None:
    """Writes the results and the page."""
    machine.write(RESULTS, {"policies": rows})
    text = WORDS.format(number=len(rows)) + table(rows)
    DOCS.write_text(f"{text}\n## What was asked for\n\n{hints(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    wanted = parser.parse_args().only
    warnings.simplefilter("ignore")
    cases = everyone()
    if not wanted:
        RESULTS.unlink(missing_ok=True)
    for name, case in cases.items():
        if wanted and not any(part in name for part in wanted):
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            outcome = tried(case, Path(folder) / "bundle")
        row = asdict(outcome) | {"seconds": round(time.process_time() - began, 1)}
        mark = "  " if outcome.outcome == case.expected else "!!"
        took = row["seconds"]
        print(f"{mark} {name}: {outcome.outcome} {outcome.distance:.1e}, {took} s", flush=True)
        if outcome.said:
            print(f"     {outcome.said}\n     second: {outcome.second}", flush=True)
        known = (stored() if RESULTS.exists() else {}) | {name: row}
        written({each: known[each] for each in cases if each in known})
    print(table(stored()))


if __name__ == "__main__":
    main()
