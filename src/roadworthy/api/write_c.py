"""`write_c`: the certified ONNX file of a bundle as C, wherever there is a compiler to try it."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from roadworthy.errors import BundleError, CertificateFailed, UsageError
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime import compiler
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.load import from_bundle
from roadworthy.runtime.trust import written_here
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.port import BATCH
from roadworthy.spec.run import Run, outputs_of
from roadworthy.spec.samples import draw
from roadworthy.spec.trace import Trace
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import Interface, interface
from roadworthy.targets.c.folder.naming import USUAL, named
from roadworthy.targets.c.folder.placing import place_files, refuse_taken
from roadworthy.targets.c.folder.selftest import selftest

# So many numbers are drawn for a self-test of other sizes than were recorded, which is some ten
# megabytes of C, or two steps; of so many times as many the compiler would have no end.
_MOST_NUMBERS, _TOO_MANY = 2**20, 8
# What a self-test may take, whose steps are milliseconds.
_SECONDS = 600


@answers
def write_c(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    name: str = USUAL,
    sizes: Mapping[str, int] | None = None,
    canary: bool = True,
) -> tuple[Path, ...]:
    """The policy of a bundle as C in a folder of its own; the paths of its files.

    `name` is what every name in them begins with, in place of "policy": policies of several names
    can be in one program. `sizes` says how large each axis is that `dynamic=` left open. Before
    anything is written the self-test, which holds what the original did, is compiled and run here;
    of sizes that were not recorded it holds what `policy.onnx` does.
    """
    for word, place in (("path", path), ("folder", folder)):
        if not isinstance(place, (str, os.PathLike)) or not str(place):
            raise UsageError(
                f"expected a folder, got {place!r}",
                where=word,
                hint="write_c('walker', 'robot/walker'): a bundle, and where its C goes",
            )
    bundle, model, trace = opened(path, canary=canary)
    own = interface(model, bundle.signature, sizes=sizes)
    golden = trace if _is_of(trace, own) else _recorded(bundle, own, trace)
    texts = named({**written(own), "selftest.c": selftest(own, golden)}, name)
    refuse_taken(folder, texts, name=name)
    _try(texts, Path(path), other="" if golden is trace else _said(own))
    return place_files(texts, Path(folder), name=name)


def opened(path: str | os.PathLike[str], *, canary: bool) -> tuple[Bundle, bytes, Trace]:
    """A bundle with the ONNX file that C is written from, and what its original did."""
    bundle = Bundle.open(path)
    if POLICY not in bundle.files:
        raise BundleError(
            f"the bundle has no {POLICY}, which C is written from",
            where=str(path),
            hint='export with targets=["onnx"]',
        )
    model = bundle.files[POLICY]
    refuse_unsafe(model, where=POLICY, canary=canary)
    return bundle, model, bundle.trace


def _is_of(trace: Trace, own: Interface) -> bool:
    """Whether the recorded steps are of the sizes that the C is written for."""
    return all(
        trace.inputs[port.name].shape[1:] == port.sizes({BATCH: trace.rows})
        for port in own.signature.inputs
    )


def _recorded(bundle: Bundle, own: Interface, usual: Trace) -> Trace:
    """As many steps as were recorded, or few large ones, of other sizes: what policy.onnx does."""
    policy = from_bundle(bundle, engine="onnx", canary=False)
    sizes = {BATCH: usual.rows}
    numbers = sum(math.prod(port.sizes(sizes)) for port in own.signature.inputs)
    steps = min(usual.steps, max(2, _MOST_NUMBERS // max(numbers, 1)))
    if steps * numbers > _TOO_MANY * _MOST_NUMBERS:
        raise UsageError(
            f"a self-test of {_said(own)} would hold {steps * numbers} numbers",
            where="sizes",
            hint="take a smaller size; rw.load(folder, engine='c') runs any that fits the memory",
        )
    resets = usual.resets[:steps]
    rng = np.random.default_rng(0)
    inputs = draw(bundle.signature, rng, steps=steps, rows=usual.rows, fixed=own.sizes)
    script = Run(inputs=inputs, resets=resets)
    try:
        outputs = outputs_of(policy, script)
    except BundleError as error:
        raise BundleError(
            f"the policy cannot be stepped with {_said(own)}: {error.findings[0].what}",
            where=POLICY,
            hint="take sizes that the original takes",
        ) from error
    return Trace(inputs=inputs, outputs=outputs, resets=resets)


def _said(own: Interface) -> str:
    return ", ".join(f"{name}={size}" for name, size in own.sizes.items())


def _try(texts: Mapping[str, str], bundle: Path, *, other: str) -> None:
    """Refuses C whose self-test does not pass here; `other` are sizes that nobody certified."""
    with tempfile.TemporaryDirectory() as scratch:
        program = compiler.program(Path(scratch), written_here(texts))
        try:
            done = subprocess.run([program], capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            said = f"it did not end within {_SECONDS} seconds"
        else:
            if not done.returncode:
                return
            crashed = done.returncode < 0
            said = f"it crashed, signal {-done.returncode}" if crashed else done.stdout.strip()
    raise CertificateFailed(
        f"the self-test fails on this machine: {said}",
        where="selftest.c",
        hint=f"of {other} it holds what policy.onnx does, and the certificate is of other sizes: "
        "take one nearer to the export's example"
        if other
        else f"roadworthy verify {shlex.quote(str(bundle))} shows how the policy itself does here",
    )
