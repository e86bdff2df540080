"""What comes of the set of policies in tests/people: the first call, its hint, and 200 steps.

    python benchmarks/people.py                  # all of them: results/people.json, docs/people.md
    python benchmarks/people.py --only skrl      # those whose name has it, shown only
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

# Few threads that wait: the policies are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import machine

from tests.people.cases import Case
from tests.people.everyone import everyone
from tests.people.trying import Outcome, tried

OUTCOMES = ("first call", "after one hint", "refused", "traceback", "wrong certificate")
DOCS = Path(__file__).parent.parent / "docs" / "people.md"
WORDS = """# Policies as people have them

`python benchmarks/people.py` builds {number} policies in the shapes that people have them in: from the
classes of Stable-Baselines3, sb3-contrib, rsl_rl, skrl, rl_games and TorchRL themselves, and in the
shape of what is published as code beside a paper. Each is exported by the first call that somebody new
would write. Where that is refused, the hint of the refusal is followed once. What comes out is loaded
and stepped beside the original: 200 steps with resets, at batches 1 and 3.

"""


def table(outcomes: Mapping[str, tuple[Case, Outcome]]) -> str:
    """The numbers by family."""
    families = dict.fromkeys(case.family for case, _ in outcomes.values())
    lines = ["| family | n | " + " | ".join(OUTCOMES) + " |", "|---" * 7 + "|"]
    for family in [*families, "all"]:
        counts = Counter(
            outcome.outcome for case, outcome in outcomes.values() if family in (case.family, "all")
        )
        cells = [str(sum(counts.values())), *(str(counts[each]) for each in OUTCOMES)]
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def hints(outcomes: Mapping[str, tuple[Case, Outcome]]) -> str:
    """What was refused at first, and the keywords of the second call."""
    lines = ["| policy | refused with | the second call adds |", "|---|---|---|"]
    for name, (_, outcome) in outcomes.items():
        if outcome.code:
            second = f"`{outcome.second}`" if outcome.second else "–"
            lines.append(f"| {name} | {outcome.code} | {second} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    wanted = parser.parse_args().only
    warnings.simplefilter("ignore")
    outcomes: dict[str, tuple[Case, Outcome]] = {}
    for name, case in everyone().items():
        if wanted and not any(part in name for part in wanted):
            continue
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = tried(case, Path(folder) / "bundle")
            except Exception as error:  # of the trial itself: shown, and never an outcome
                traceback.print_exc(limit=-3)
                print(f"!! {name}: {error!r}", flush=True)
                continue
        outcomes[name] = case, outcome
        mark = "  " if outcome.outcome == case.expected else "!!"
        took = time.perf_counter() - began
        print(f"{mark} {name}: {outcome.outcome} {outcome.distance:.1e}, {took:.1f} s", flush=True)
        if mark == "!!" or wanted:
            print(f"     {outcome.said}\n     second: {outcome.second}", flush=True)
    print(table(outcomes))
    if not wanted:
        rows = {name: asdict(outcome) for name, (_, outcome) in outcomes.items()}
        machine.write(machine.RESULTS / "people.json", {"policies": rows})
        text = WORDS.format(number=len(outcomes)) + table(outcomes)
        DOCS.write_text(f"{text}\n## What was asked for\n\n{hints(outcomes)}")


if __name__ == "__main__":
    main()
