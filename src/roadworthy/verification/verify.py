"""`verify`: all the checks that what is at hand allows."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roadworthy.errors import CertificateFailed, Finding, UsageError, need
from roadworthy.runtime.load import from_bundle
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace
from roadworthy.verification import checks
from roadworthy.verification.causes import explained
from roadworthy.verification.certificate import Certificate
from roadworthy.verification.choices import choices
from roadworthy.verification.ports import contradictions
from roadworthy.verification.rollout import closed_loop
from roadworthy.verification.sensitivity import sensitivity
from roadworthy.worlds.world import World

Progress = Callable[[str], None]


def verify(
    path: str | os.PathLike[str],
    *,
    against: Any = None,
    normalizer: Any = None,
    env: Any = None,
    episodes: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle.

    Alone it replays the recorded steps and tests batches and resets, without PyTorch: the
    self-test on the robot. `against` (a module, or a `Source`) adds fresh steps of the live
    original; `normalizer` is the module that was exported in front of it, if it was a module.
    `env` (a Gymnasium id, a function that makes an environment, or a `World`, which says more)
    adds episodes in closed loop.
    """
    if not Path(path).is_dir():
        raise UsageError(
            f"{path} is no bundle folder",
            hint="verify needs the folder: a lone .onnx carries no trace",
        )
    return examine(
        Bundle.open(path),
        against=against,
        normalizer=normalizer,
        world=_world(env, episodes, against),
        seed=seed,
        progress=progress,
    )


def _world(env: Any, episodes: int | None, against: Any) -> World | None:
    if env is None:
        if episodes is not None:
            raise UsageError("episodes of what?", hint="pass env='CartPole-v1', or a function")
        return None
    if against is None:
        raise UsageError(
            "an environment needs the original beside the artifact",
            hint="verify(…, against=module, env=…); `roadworthy run` plays the artifact alone",
        )
    world = env if isinstance(env, World) else World(env)
    return world if episodes is None else dataclasses.replace(world, episodes=episodes)


def examine(
    bundle: Bundle,
    *,
    against: Any = None,
    normalizer: Any = None,
    world: World | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle that is already open."""
    say = progress or (lambda stage: None)
    findings: list[Finding] = []
    say("replaying the trace")
    done = [checks.replay(from_bundle(bundle), Trace.from_bytes(bundle.files[TRACE]))]
    if not bundle.signature.fixed_rows:
        say("comparing batches")
        done.append(checks.batch(lambda: from_bundle(bundle), seed))
    say("comparing resets")
    done.append(checks.reset(lambda: from_bundle(bundle), seed))
    subject = None
    if against is not None:
        say("stepping beside the live module")
        need("torch", extra="export")
        from roadworthy.verification.live import live

        subject = subject_of(bundle, against, normalizer)
        check, moment = live(from_bundle(bundle), subject, seed)
        done += [check, *choices(bundle, subject, seed)]
        if moment is not None:
            say("looking for where the difference begins")
            findings += _where(bundle, subject, moment)
        # What only this kind of subject can be asked: an environment lives on by itself.
        further = getattr(subject, "further_checks", None)
        done += further(from_bundle(bundle)) if further else []
        if world is not None:
            done += closed_loop(
                lambda: from_bundle(bundle), subject, world, seed=seed, progress=say
            )
    say("looking at what each port is for")
    findings = [
        *explained(bundle, subject, done, seed),
        *findings,
        *sensitivity(lambda: from_bundle(bundle), seed),
    ]
    return Certificate(checks=tuple(done), seed=seed, findings=tuple(findings))


def _where(bundle: Bundle, subject: Any, moment: Any) -> list[Finding]:
    from roadworthy.verification.localise import localise

    source: Any = getattr(subject, "source", None)
    found = localise(bundle, source, moment) if hasattr(source, "module") else None
    return [found] if found else []


def subject_of(bundle: Bundle, against: Any, normalizer: Any = None) -> Any:
    """What the artifact is compared with, as the bundle's recipe composes it."""
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
    wrong = list(contradictions(signature, source))
    if wrong:
        raise CertificateFailed(findings=wrong)
