"""Writes tests/durations.json from what a run of pytest took: `make durations`, on idle cores.

    pytest -o junit_duration_report=call --junit-xml=FILE; python -m tests.durations FILE

Of each test with several cases the mean of those that ran, without what fixtures made for others
too. What did not run keeps what was measured before.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean
from xml.etree import ElementTree

DURATIONS = Path(__file__).with_name("durations.json")
# A case that takes less is not written down: hundreds of them are needed to fill the time.
LEAST_S = 0.05


def measured(report: Path) -> dict[str, float]:
    """Test, without its folder → seconds that one of its cases took."""
    cases: defaultdict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        name, bracket, _ = case.attrib["name"].partition("[")
        if bracket:
            file = case.attrib["classname"].rpartition(".")[2]
            cases[f"{file}.py::{name}"].append(float(case.attrib["time"]))
    return {test: round(mean(seconds), 2) for test, seconds in cases.items()}


def main(report: Path) -> None:
    known: dict[str, float] = json.loads(DURATIONS.read_text())
    found = {test: s for test, s in (known | measured(report)).items() if s >= LEAST_S}
    DURATIONS.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
