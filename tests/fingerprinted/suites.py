"""The suites: what the tests know, case by case, and how each case is made anew."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn, zeros

import roadworthy as rw
from tests.fingerprinted.moved import as_recorded

# Makes a case; what it writes goes into the folder.
Make = Callable[[Path], object]
Cases = dict[str, Make]
TARGETS = ("onnx", "c", "torch_export")
SEEDS = 60
# The frameworks that are installed, and write their checkpoints anew.
WRITERS = {"rsl_rl": "rsl-rl-lib", "skrl": "skrl", "rl_games": "rl-games"}


def _from(name: str) -> Any:
    return importlib.import_module(f"tests.{name}")


def policies(*targets: str) -> Cases:
    cases = _from("policies").CASES
    return {
        f"{name} as {target}": partial(
            lambda name, target, folder: rw.export(cases[name].make(), folder, targets=[target]),
            name, target,
        )
        for name in cases for target in targets
    }  # fmt: skip


def sources(makes: dict[str, Callable[[], Any]], **options: Any) -> Cases:
    """Functions that make a source or a module anew."""
    return {
        name: partial(lambda make, folder: rw.export(make(), folder, **options), make)
        for name, make in makes.items()
    }


def classes(module: Any, kind: type) -> dict[str, type]:
    """The classes of a kind that a module defines, in its order."""
    return {
        f"{as_recorded(module.__name__).rpartition('.')[2]}.{name}": value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, kind)
        and value.__module__ == module.__name__
    }  # fmt: skip


def environments() -> Cases:
    """The registry, and every small environment that is right or wrong in one way."""
    made = dict(_from("environment.environments").ENVIRONMENTS)
    plain = _from("environment.environments").plain
    for name in ("mistakes", "hidden_inputs", "late_changes", "harmless", "untaken_branches"):
        kinds = classes(_from(f"environment.{name}"), _from("environment.mistakes").Sound)
        made |= {name: partial(plain, kind) for name, kind in kinds.items()}
    return {
        name: partial(lambda make, folder: rw.export_environment(*make(), folder), make)
        for name, make in made.items()
    }


def good() -> Cases:
    """Policies that are unusual, natural, in a corner, or look as if they had state."""
    idioms, wrong = _from("capture.idioms"), _from("verdicts.test_wrong_policies")
    cases = sources(_from("verdicts.unusual").UNUSUAL)
    cases |= sources({n: make for n, (make, _) in _from("verdicts.test_corners").GOOD.items()})
    for kind, said in idioms.NATURAL.items():
        cases |= sources({kind.__name__: kind}, **({"example": idioms.OBS} | said))
    for name, (make, memory) in _from("capture.class_styles.states").STATES.items():
        cases |= sources({f"state {name}": make}, example={"obs": zeros(1, 4)}, memory=memory)
    looks = {kind.__name__: kind for kind in _from("verdicts.look_alikes").LOOK_ALIKES}
    cases |= sources(looks, example={"obs": zeros(1, 5)})
    alike = _from("capture.state.alike").ALIKE
    return cases | sources({kind.__name__: partial(wrong.bare, kind) for kind in alike})


def refused() -> Cases:
    """Modules that are wrong in one way, alone and deep inside of another."""
    wrong = _from("verdicts.test_wrong_policies")
    kinds = classes(_from("capture.refused"), nn.Module)
    for name in ("verdicts.places", "capture.state.wrong", "capture.state.world",
                 "capture.state.handed"):  # fmt: skip
        kinds |= classes(_from(name), nn.Module)
    alone = {name: partial(wrong.bare, kind) for name, kind in kinds.items()}
    deep = {f"{name} deep": partial(wrong.deep, kind) for name, kind in kinds.items()}
    return sources(alone | deep)


def failing() -> Cases:
    """Code as people write it, and as the finding tells to write it."""
    cases: Cases = {}
    for name, case in _from("capture.failures.cases").CASES.items():
        cases |= sources({f"{name} before": case.source_before})
        cases |= sources({f"{name} after": case.source_after}, **case.options)
    return cases


def patients() -> Cases:
    module = _from("rules.patients")
    kinds = classes(module, nn.Module) | {"patients.Runner": module.Runner}
    kinds |= classes(_from("capture.refused"), nn.Module)
    return {
        name: partial(
            lambda kind, folder: rw.diagnose(kind(), example={"obs": zeros(1, 6)}), kind
        )
        for name, kind in kinds.items()
    }  # fmt: skip


def people() -> Cases:
    """The first call of somebody new, and the one that the hint leads to."""
    cases: Cases = {}
    for name, case in _from("user_policies.everyone").everyone().items():
        for calls in (1, 2) if case.then else (1,):
            cases[f"{name}, call {calls}"] = partial(_called, case, calls)
    return cases


def _called(case: Any, calls: int, folder: Path) -> None:
    trying, module = _from("user_policies.trying"), case.make()
    keywords = {"example": case.example, **case.keywords}
    error = trying.exported(module, folder, keywords)
    if calls == 2 and isinstance(error, rw.RoadworthyError):
        more = trying.followed(case, error.findings[0].hint)
        module = more.pop("module", lambda same: same)(module)
        error = trying.exported(module, folder, trying.joined(keywords, more))
    if error is not None:
        raise error


def generated() -> Cases:
    build, grammar = _from("random_policies.build"), _from("random_policies.grammar")
    made = {
        f"seed {seed:03d}": partial(lambda seed: build.source(grammar.generate(seed)), seed)
        for seed in range(SEEDS)
    }
    in_c = {f"{name} as c": make for name, make in made.items()}
    return sources(made) | sources(in_c, targets=["c"])


def checkpoints() -> Cases:
    """Files of released versions, and those that the installed frameworks write."""
    recorded, files = _from("checkpoints.test_recorded"), {}
    for folder in recorded.FOLDERS:
        name = f"{folder.parent.name}-{folder.name}"
        files[name] = partial(_recorded, folder)
    models: Cases = {name: partial(_saved, name) for name in _from("checkpoints.sb3_models").MODELS}
    written: Cases = {f"written by {name}": partial(_written, name) for name in WRITERS}
    return files | models | written


def _recorded(kept: Path, folder: Path) -> object:
    told = _from("checkpoints.recording").recording(kept)
    valued = {} if told.values is None else {"outputs": ["value"]}
    return rw.export(told.checkpoint, folder, assume=told.assume, **valued)


def _saved(name: str, folder: Path) -> object:
    _, _, path = _from("checkpoints.sb3_models").saved(name, folder.parent)
    return rw.export(path, folder, assume=_from("checkpoints.test_sb3").assume(name))


def _written(framework: str, folder: Path) -> None:
    version = importlib.metadata.version(WRITERS[framework])
    for case in _from(f"checkpoints.writers.{framework}").cases(version):
        beside = folder.parent / case.name
        beside.mkdir()
        rw.export(beside / case.save(beside), folder / case.name, assume=case.assume)


SUITES: dict[str, Callable[[], Cases]] = {
    "policies": partial(policies, *TARGETS),
    "environments": environments,
    "good": good,
    "refused": refused,
    "failing": failing,
    "patients": patients,
    "people": people,
    "generated": generated,
    "checkpoints": checkpoints,
    "aoti": partial(policies, "aoti"),
}
