"""What must not happen to a good policy, and whether it happened to this one."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import roadworthy as rw
from tests.facts import differing, facts
from tests.random_policies import build, comparing
from tests.random_policies.policy import Policy
from tests.verdicts.mutations import damaged

LONGEST_S = 120
# How much one weight of a damaged artifact moves, as a part of a typical weight.
MOVED = 1e-3


@dataclass(frozen=True)
class Failure:
    """`kind` and `key` say whether two failures are the same; `text` is for a person."""

    kind: str
    key: str
    text: str

    def like(self, other: Failure | None) -> bool:
        return other is not None and (self.kind, self.key) == (other.kind, other.key)


@dataclass(frozen=True)
class Asked:
    """What is asked of a policy besides that it is exported, and behaves."""

    targets: tuple[str, ...] = ("onnx",)
    twice: bool = False
    damage: bool = False


def is_fair(finding: rw.Finding) -> bool:
    """Whether a refusal names what the target does not have, rather than what the policy did."""
    return finding.code in ("RW106", "RW131") or (
        finding.code == "RW105" and "has no operator for" in finding.what
    )


class TooLong(BaseException):
    """Nothing came back in time. Not an Exception: whoever catches those must not catch this."""


def examine(policy: Policy, asked: Asked = Asked()) -> Failure | None:  # noqa: B008
    """The first thing that went wrong with a policy, or None."""
    with tempfile.TemporaryDirectory() as temporary, at_most(LONGEST_S):
        try:
            return _examined(policy, asked, Path(temporary))
        except TooLong:
            return Failure("too long", "", f"more than {LONGEST_S} s")
        finally:
            shutil.rmtree(Path(temporary) / "damaged", ignore_errors=True)


def _examined(policy: Policy, asked: Asked, folder: Path) -> Failure | None:
    source = build.source(policy)
    before = facts(source)
    try:
        bundle = rw.export(source, folder / "first", targets=asked.targets)
    except rw.RoadworthyError as error:
        codes = ",".join(sorted({finding.code for finding in error.findings}))
        if all(is_fair(finding) for finding in error.findings):
            return Failure("fair", codes, str(error))
        return Failure("refused", f"{type(error).__name__} {codes}", str(error))
    except Exception as error:
        return Failure("traceback", _place(error), traceback.format_exc())
    changed = differing(before, facts(source))
    if changed:
        return Failure("changed", ",".join(changed), "the export changed the caller's objects")
    for target in asked.targets:
        try:
            artifact = rw.load(folder / "first", engine=target, trust=True)
            departs = comparing.difference(policy, artifact)
        except rw.RoadworthyError as error:
            return Failure("not run", type(error).__name__, str(error))
        if departs is not None:
            return Failure("wrong", target, departs)
    if asked.twice:
        rw.export(build.source(policy), folder / "second", targets=asked.targets)
        sums = [(folder / each / "SHA256SUMS").read_text() for each in ("first", "second")]
        if sums[0] != sums[1]:
            lines = set(sums[0].splitlines()) ^ set(sums[1].splitlines())
            files = sorted({line.split()[-1] for line in lines})
            return Failure("bytes", ",".join(files), "two exports of one policy differ")
    return _damage_missed(policy, bundle, folder) if asked.damage else None


def _damage_missed(policy: Policy, bundle: rw.Bundle, folder: Path) -> Failure | None:
    """Whether a weight that moved goes unnoticed, though it is more than rounding."""
    model = onnx.load_from_string(bundle.files["policy.onnx"])
    names = [
        each.name
        for each in model.graph.initializer
        if len(each.dims) > 1
        and each.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    ]
    if not names:
        return None
    draws = np.random.default_rng(policy.seed)
    name = str(draws.choice(names))

    def move(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
        tensor = next(each for each in model.graph.initializer if each.name == name)
        values = numpy_helper.to_array(tensor).copy()
        values.flat[draws.integers(values.size)] += MOVED * np.abs(values).mean()
        tensor.CopyFrom(numpy_helper.from_array(values, name))

    other = damaged(bundle, folder / "damaged", move)
    if not rw.verify(other, against=build.source(policy)).passed:
        return None
    departs = comparing.difference(policy, rw.load(other))
    if departs is None:
        return None  # rounding hides it, or nothing flows through that weight
    return Failure("missed", name, f"{name} moved by {MOVED:g} of a typical weight: {departs}")


def _place(error: Exception) -> str:
    """The innermost line of Roadworthy behind an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "roadworthy" in frame.filename]
    where = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "outside"
    return f"{type(error).__name__} {where}"


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raises TooLong inside, when so much of the processor's time is gone."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        raise TooLong

    # Of the processor's time: on a busy machine the clock on the wall says nothing.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
