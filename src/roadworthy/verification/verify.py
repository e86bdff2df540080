"""`verify`: all the checks that what is at hand allows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError, need
from roadworthy.runtime.load import from_bundle
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace
from roadworthy.verification import checks
from roadworthy.verification.certificate import Certificate

Progress = Callable[[str], None]


def verify(
    path: str | os.PathLike[str],
    *,
    against: Any = None,
    normalizer: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle.

    Alone it replays the recorded steps and tests batches and resets, without PyTorch: the
    self-test on the robot. `against` (a module, or a `Source`) adds fresh steps of the live
    original; `normalizer` is the module that was exported in front of it, if it was a module.
    """
    if not Path(path).is_dir():
        raise UsageError(
            f"{path} is no bundle folder",
            hint="verify needs the folder: a lone .onnx carries no trace",
        )
    return examine(
        Bundle.open(path), against=against, normalizer=normalizer, seed=seed, progress=progress
    )


def examine(
    bundle: Bundle,
    *,
    against: Any = None,
    normalizer: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle that is already open."""
    say = progress or (lambda stage: None)
    say("replaying the trace")
    done = [checks.replay(from_bundle(bundle), Trace.from_bytes(bundle.files[TRACE]))]
    if not bundle.signature.fixed_rows:
        say("comparing batches")
        done.append(checks.batch(lambda: from_bundle(bundle), seed))
    say("comparing resets")
    done.append(checks.reset(lambda: from_bundle(bundle), seed))
    if against is not None:
        say("stepping beside the live module")
        need("torch", extra="export")
        from roadworthy.verification.live import live

        done.append(live(from_bundle(bundle), _subject(bundle, against, normalizer), seed))
    return Certificate(checks=tuple(done), seed=seed)


def _subject(bundle: Bundle, against: Any, normalizer: Any) -> Any:
    from roadworthy.capture.recipe import source_from
    from roadworthy.capture.record import ModuleSubject
    from roadworthy.capture.source import Source

    if hasattr(against, "original"):
        return against
    if isinstance(against, Source):
        _refuse_other_source(bundle.signature, against)
        return ModuleSubject(against)
    recipe = bundle.manifest["recipe"]
    if "environment" in recipe:
        raise UsageError(
            f"the bundle was made from the environment {recipe['environment']}",
            hint="verify it alone, or compare it with evaluate(env, …)",
        )
    if "rewritten" in recipe:
        raise UsageError(
            f"the bundle was made by an adapter; a bare {type(against).__name__} does not say how",
            code="RW147",
            where="against",
            hint=f"rw.verify({str(bundle.folder)!r}, against={recipe['rewritten']})",
        )
    return ModuleSubject(source_from(against, recipe, bundle.signature, normalizer=normalizer))


def _refuse_other_source(signature: Signature, source: Any) -> None:
    described = [*source.tensors, *(mask for mask in source.masks if mask not in source.tensors)]
    names = [port.name for port in signature.inputs]
    if sorted(described) != sorted(names):
        raise UsageError(
            f"the Source takes {', '.join(described)}, the bundle {', '.join(names)}",
            where="against",
            hint="pass the Source that the bundle was exported from",
        )
