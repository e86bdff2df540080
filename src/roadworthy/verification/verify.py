"""`verify`: all the checks that what is at hand allows."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from roadworthy.errors import Finding, UsageError, need
from roadworthy.runtime.engines import needs_trust
from roadworthy.runtime.load import engine_of
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace
from roadworthy.verification import checks
from roadworthy.verification.certificate import Certificate, Check
from roadworthy.verification.rollout import closed_loop
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
    trust: bool = False,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle.

    Alone it replays the recorded steps and tests batches and resets, without PyTorch: the
    self-test on the robot. `against` (a module, or a `Source`) adds fresh steps of the live
    original; `normalizer` is the module that was exported in front of it, if it was a module.
    `env` (a Gymnasium id, a function that makes an environment, or a `World`, which says more)
    adds episodes in closed loop. Targets that are code are run with `trust=True` only; a finding
    says what was not run.
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
        trust=trust,
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
    trust: bool = False,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle that is already open."""
    say = progress or (lambda stage: None)
    subject = None
    if against is not None:
        need("torch", extra="export")
        subject = _subject(bundle, against, normalizer)
    done: list[Check] = []
    findings: list[Finding] = []
    for target, file in bundle.targets.items():
        if needs_trust(target) and not trust:
            findings.append(_not_run(target, file))
            continue
        found = _checks(bundle, target, subject, world, seed, say)
        done += [dataclasses.replace(check, target=target) for check in found]
    return Certificate(checks=tuple(done), seed=seed, findings=tuple(findings))


def _not_run(target: str, file: str) -> Finding:
    return Finding(
        code="RW213",
        where=target,
        what=f"was not run: {file} is code",
        hint="trust=True (--trust) runs it",
        severity="note",
    )


def _checks(
    bundle: Bundle, target: str, subject: Any, world: World | None, seed: int, say: Progress
) -> Iterator[Check]:
    """Every check of one target, which may run, one after another."""
    new = partial(Policy, bundle.signature, engine_of(bundle, target, trust=True))
    prefix = f"{target}: " if len(bundle.targets) > 1 else ""
    say(f"{prefix}replaying the trace")
    yield checks.replay(new(), Trace.from_bytes(bundle.files[TRACE]))
    if not bundle.signature.fixed_rows:
        say(f"{prefix}comparing batches")
        yield checks.batch(new, seed)
    say(f"{prefix}comparing resets")
    yield checks.reset(new, seed)
    if subject is not None:
        say(f"{prefix}stepping beside the live module")
        from roadworthy.verification.live import live

        yield live(new(), subject, seed)
        # What only this kind of subject can be asked: an environment lives on by itself.
        further = getattr(subject, "further_checks", None)
        yield from further(new()) if further else ()
        if world is not None:
            yield from closed_loop(
                new, subject, world, seed=seed, progress=lambda stage: say(prefix + stage)
            )


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
