"""Everything that the tests know as a policy, exported as C too: certified, or refused by name.

The registry, the environments, the policies of tests/user_policies, TorchRL's, the benchmarks' and
every checkpoint that a released framework wrote. The certificate of the target c is the judge:
replay, batches, resets, bits and fresh steps on the compiled file. The result goes to
results/c_coverage.json.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import machine
import torch
from c_engines import ENVIRONMENTS as BENCHED
from c_engines import sources

import roadworthy as rw

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.adapters.torchrl import policies as torchrl
from tests.checkpoints.recording import CASE, recording
from tests.environment.environments import ENVIRONMENTS
from tests.policies import CASES
from tests.user_policies.everyone import everyone
from tests.user_policies.trying import followed, joined

FILES = Path(__file__).parent.parent / "tests" / "checkpoints" / "files"
TARGETS = ("onnx", "c")
Export = Callable[[Path], object]


def everything() -> Iterator[tuple[str, str, Export]]:
    """Family and name of each, and what exports it into a folder."""
    for name, case in CASES.items():
        yield "registry", name, partial(_module, case.make, {})
    for style, make in ENVIRONMENTS.items():
        yield "environments", style, partial(_environment, make)
    for name, source in sources().items():
        yield "benchmarks", name, partial(_exported, source)
    for name, (env, actor) in BENCHED.items():
        yield "benchmarks", name, partial(_environment, partial(_made, env, actor))
    for name, person in everyone().items():
        yield "people", name, partial(_person, person)
    for name, make in torchrl.POLICIES.items():
        words = {"exploration": "deterministic", "example": torchrl.example_for(name)}
        yield "TorchRL", name, partial(_module, make, words)
    for folder in sorted(each.parent for each in FILES.rglob(CASE)):
        yield "checkpoints", f"{folder.parent.name} {folder.name}", partial(_checkpoint, folder)


def _made(env: Callable[[], Any], actor: Callable[[], Any]) -> tuple[Any, Any]:
    return env(), actor()


def _exported(policy: Any, folder: Path, **keywords: Any) -> None:
    rw.export(policy, folder, **keywords, targets=TARGETS)


def _module(make: Callable[[], Any], keywords: Mapping[str, Any], folder: Path) -> None:
    _exported(make(), folder, **keywords)


def _environment(make: Callable[[], Any], folder: Path) -> None:
    env, actor = make()
    rw.export_environment(env, actor, folder, targets=TARGETS)


def _checkpoint(place: Path, folder: Path) -> None:
    case = recording(place)
    answers = {name: value for name, value in case.assume.items() if name != "critic_obs"}
    _exported(case.checkpoint, folder, assume=answers)


def _person(case: Any, folder: Path) -> None:
    """The first call, and the one that its hint leads to."""
    module, keywords = case.make(), {"example": case.example, **case.keywords}
    try:
        _exported(module, folder, **keywords)
    except rw.RoadworthyError as error:
        more = {} if error.findings[0].code == "RW131" else followed(case, error.findings[0].hint)
        if not more:
            raise
        module = more.pop("module", lambda same: same)(module)
        _exported(module, folder, **joined(keywords, more))


def outcome(export: Export, folder: Path) -> dict[str, str]:
    try:
        export(folder)
    except rw.RoadworthyError as error:
        first = error.findings[0]
        if first.code == "RW131":
            return {"outcome": "refused by name", "why": first.what}
        # As ONNX alone, is it refused too?
        return {"outcome": "refused", "why": str(error)[:600]}
    except Exception as error:
        return {"outcome": "traceback", "why": repr(error)[:600]}
    certificate = rw.Certificate.from_bytes((folder / "certificate.json").read_bytes())
    names = {each.name for each in certificate.checks if each.target == "c"}
    assert {"replay", "reset", "bits", "fresh steps"} <= names, names
    return {"outcome": "certified"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="families and names that have this in them; the others stay"
    )
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "c_coverage.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: dict[str, dict[str, Any]] = {}
    if arguments.only and arguments.out.is_file():
        rows = json.loads(arguments.out.read_text())["policies"]
    for family, name, export in everything():
        if arguments.only not in f"{family}: {name}":
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            found: dict[str, Any] = dict(outcome(export, Path(scratch) / "bundle"))
        row = found | {"seconds": round(time.process_time() - began, 1)}
        rows[f"{family}: {name}"] = row
        print(f"{family}: {name}: {row['outcome']} {row.get('why', '')}", flush=True)
    counts: dict[str, collections.Counter[str]] = {}
    for name, row in rows.items():
        counts.setdefault(name.partition(": ")[0], collections.Counter())[row["outcome"]] += 1
    print(counts)
    machine.write(arguments.out, {"counts": counts, "policies": rows})


if __name__ == "__main__":
    main()
