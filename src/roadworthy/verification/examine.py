"""Every check that a bundle allows, target by target, and what else there is to say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from roadworthy.errors import BundleError, Finding
from roadworthy.runtime.engine import AnyEngine, CompiledEngine
from roadworthy.runtime.gym.closed_loop import ClosedLoop
from roadworthy.runtime.load import engine_of
from roadworthy.runtime.policy import Policy
from roadworthy.spec import targets
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.certificate import Certificate, Check
from roadworthy.spec.trace import refuse_unfit
from roadworthy.verification import checks
from roadworthy.verification.causes import causes, remarks
from roadworthy.verification.choices import choices
from roadworthy.verification.fresh_steps import FreshSteps
from roadworthy.verification.logits import logits
from roadworthy.verification.not_finite import not_finite
from roadworthy.verification.originals.original import Original
from roadworthy.verification.rollout import closed_loop
from roadworthy.verification.sensitivity import sensitivity
from roadworthy.verification.untried import untried
from roadworthy.verification.visited import FailingStep

Progress = Callable[[str], None]
# The target in which graphs can be looked into.
READABLE = "onnx"


def examine(
    bundle: Bundle,
    *,
    original: Original | None = None,
    loop: ClosedLoop | None = None,
    seed: int = 0,
    trust: bool = False,
    device: str = "cpu",
    canary: bool = True,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle that is already open."""
    say = progress or (lambda stage: None)
    done: list[Check] = []
    findings: list[Finding] = []
    fresh = (
        None if original is None else FreshSteps(original, bundle.signature, seed, bundle.sampling)
    )
    ran: list[_Examined] = []
    for target, files in bundle.targets.items():
        row = targets.get(target)
        if targets.kind(device) not in row.engines:
            hint = f"it runs on {', '.join(row.engines)}"
            findings.append(_not_run(target, f"it has no engine for the device {device!r}", hint))
            continue
        if row.code and not trust:
            hint = "trust=True (--trust) runs it"
            findings.append(_not_run(target, f"{files[0]} is code", hint))
            continue
        examined = _Examined(bundle, target, device, fresh, seed, say, trust, canary)
        missing = examined.missing()
        if missing is not None:
            findings.append(_not_run(target, missing.what, missing.hint))
            continue
        done += [
            dataclasses.replace(each, target=target, device=device)
            for each in examined.checks(loop)
        ]
        findings += examined.findings
        ran.append(examined)
    said = [*remarks(bundle, original), *_why(ran, done, original, seed), *findings]
    if ran:
        say("looking at what each port is for")
        said += sensitivity(ran[0].new, seed, bundle.sampling)
    return Certificate(checks=tuple(done), seed=seed, findings=(*said, *untried(bundle.sampling)))


def _why(
    ran: Sequence[_Examined], done: Sequence[Check], original: Original | None, seed: int
) -> tuple[Finding, ...]:
    """The likely causes for the first target of which a check failed."""
    for each in ran:
        own = [check for check in done if check.target == each.target]
        if not all(check.passed for check in own):
            return causes(each.bundle, each.new, original, own, seed)
    return ()


def _not_run(target: str, why: str, hint: str) -> Finding:
    return Finding(
        code="RW213", where=target, what=f"was not run: {why}", hint=hint, severity="note"
    )


@dataclass(eq=False)
class _Examined:
    """One target, which may run, and what is to be said of it besides its checks."""

    bundle: Bundle
    target: str
    device: str
    fresh: FreshSteps | None
    seed: int
    progress: Progress
    trust: bool
    canary: bool
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def engine(self) -> AnyEngine:
        return engine_of(
            self.bundle, self.target, device=self.device, trust=self.trust, canary=self.canary
        )

    @cached_property
    def new(self) -> Callable[[], Policy]:
        """Opens the target once more, with a memory of its own."""
        return partial(Policy, self.bundle.signature, self.engine)

    def missing(self) -> Finding | None:
        """What this machine lacks to run the target on the device; None where it has it."""
        try:
            self.new()
        except BundleError as error:
            if error.findings[0].code != "RW214":
                raise
            return error.findings[0]
        return None

    def checks(self, loop: ClosedLoop | None) -> Iterator[Check]:
        new = self.new
        self._say("replaying the trace")
        trace = self.bundle.trace
        refuse_unfit(trace, self.bundle.signature)
        yield checks.replay(new(), trace)
        if not self.bundle.signature.fixed_rows:
            self._say("comparing batches")
            yield checks.batch(new, trace, self.seed, self.bundle.sampling)
        self._say("comparing resets")
        yield checks.reset(new, self.seed, self.bundle.sampling)
        if isinstance(self.engine, CompiledEngine):
            self._say("compiling it without vectors")
            other = Policy(self.bundle.signature, self.engine.compiled_otherwise())
            yield checks.bits(new(), other, trace)
        if self.fresh is not None:
            self._say("stepping beside the live module")
            yield from self._beside(new, self.fresh)
            if loop is not None:
                yield from closed_loop(
                    new,
                    self.fresh.original,
                    loop,
                    seed=self.seed,
                    progress=self._say,
                    yardstick=self.fresh.yardstick if self.fresh.judge else None,
                )

    def _beside(self, new: Callable[[], Policy], fresh: FreshSteps) -> Iterator[Check]:
        """The checks that need the original."""
        original = fresh.original
        found, failing = fresh.checks(new())
        yield from found
        behind = logits(self.bundle, fresh) if self.target == READABLE else []
        yield from behind or choices(new(), fresh)
        if failing is not None and self.target == READABLE:
            self._say("looking for where the difference begins")
            self.findings += self._where(original, failing)
        self.findings += not_finite(new(), original, self.bundle.sampling)
        yield from original.extra_checks(new())

    def _where(self, original: Original, failing: FailingStep) -> list[Finding]:
        from roadworthy.verification.first_divergence import first_divergence  # needs onnx

        found = first_divergence(self.bundle, original, failing)
        return [found] if found else []

    def _say(self, stage: str) -> None:
        several = len(self.bundle.targets) > 1
        self.progress(f"{self.target}: {stage}" if several else stage)
