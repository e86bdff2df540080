"""Every check that a bundle allows, target by target, and what else there is to say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from roadworthy import targets
from roadworthy.errors import Finding, need
from roadworthy.runtime.load import engine_of
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.trace import Trace
from roadworthy.verification import checks
from roadworthy.verification.causes import explained
from roadworthy.verification.certificate import Certificate, Check
from roadworthy.verification.choices import choices
from roadworthy.verification.rollout import closed_loop
from roadworthy.verification.sensitivity import sensitivity
from roadworthy.verification.subjects import subject_of
from roadworthy.worlds.world import World

Progress = Callable[[str], None]
# The target in which graphs can be looked into: what is said of it holds for the others as well.
READABLE = "onnx"


def examine(
    bundle: Bundle,
    *,
    against: Any = None,
    normalizer: Any = None,
    world: World | None = None,
    seed: int = 0,
    trust: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle that is already open."""
    say = progress or (lambda stage: None)
    subject = None
    if against is not None:
        need("torch", extra="export")
        subject = subject_of(bundle, against, normalizer)
    done: list[Check] = []
    findings: list[Finding] = []
    for target, files in bundle.targets.items():
        row = targets.get(target)
        if device not in row.engines:
            hint = f"it runs on {', '.join(row.engines)}"
            findings.append(_not_run(target, f"it has no engine for the device {device!r}", hint))
            continue
        if row.code and not trust:
            hint = "trust=True (--trust) runs it"
            findings.append(_not_run(target, f"{files[0]} is code", hint))
            continue
        examined = _Target(bundle, target, device, subject, seed, say)
        done += [
            dataclasses.replace(each, target=target, device=device)
            for each in examined.checks(world)
        ]
        findings += examined.findings
    if READABLE in bundle.targets:
        findings = [*explained(bundle, subject, done, seed), *findings]
    return Certificate(checks=tuple(done), seed=seed, findings=tuple(findings))


def _not_run(target: str, why: str, hint: str) -> Finding:
    return Finding(
        code="RW213", where=target, what=f"was not run: {why}", hint=hint, severity="note"
    )


@dataclass(slots=True, eq=False)
class _Target:
    """One target, which may run, and what is to be said of it besides its checks."""

    bundle: Bundle
    target: str
    device: str
    subject: Any
    seed: int
    progress: Progress
    findings: list[Finding] = field(default_factory=list)

    def checks(self, world: World | None) -> Iterator[Check]:
        engine = engine_of(self.bundle, self.target, device=self.device, trust=True)
        new = partial(Policy, self.bundle.signature, engine)
        self._say("replaying the trace")
        yield checks.replay(new(), Trace.from_bytes(self.bundle.files[TRACE]))
        if not self.bundle.signature.fixed_rows:
            self._say("comparing batches")
            yield checks.batch(new, self.seed)
        self._say("comparing resets")
        yield checks.reset(new, self.seed)
        if self.subject is not None:
            self._say("stepping beside the live module")
            yield from self._beside(new)
        if world is not None:
            yield from closed_loop(new, self.subject, world, seed=self.seed, progress=self._say)
        if self.target == READABLE:
            self._say("looking at what each port is for")
            self.findings += sensitivity(new, self.seed)

    def _beside(self, new: Callable[[], Policy]) -> Iterator[Check]:
        """The checks that need the original."""
        from roadworthy.verification.live import live

        check, moment = live(new(), self.subject, self.seed)
        yield check
        if self.target == READABLE:
            yield from choices(self.bundle, self.subject, self.seed)
            if moment is not None:
                self._say("looking for where the difference begins")
                self.findings += _where(self.bundle, self.subject, moment)
        # What only this kind of subject can be asked: an environment lives on by itself.
        further = getattr(self.subject, "further_checks", None)
        yield from further(new()) if further else ()

    def _say(self, stage: str) -> None:
        several = len(self.bundle.targets) > 1
        self.progress(f"{self.target}: {stage}" if several else stage)


def _where(bundle: Bundle, subject: Any, moment: Any) -> list[Finding]:
    from roadworthy.verification.localise import localise

    source: Any = getattr(subject, "source", None)
    found = localise(bundle, source, moment) if hasattr(source, "module") else None
    return [found] if found else []
