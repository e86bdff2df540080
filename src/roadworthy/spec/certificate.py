"""The certificate: what was compared, how many steps, the worst difference, the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from roadworthy.errors import BundleError, CertificateFailed, Finding
from roadworthy.spec.json_file import from_json, understood
from roadworthy.spec.targets import DEFAULT
from roadworthy.spec.tolerance import ROUNDINGS

VERSION = 4

# What helps when a check failed and no likely cause was found, by the name of the check.
_LIMITS = (
    "; an input that is never as large as what was tried (a mask of 0 and 1) has limits: "
    "about={'masks': rw.About(low=0, high=1)}"
)
_COMPARE_VALUES = (
    "roadworthy inspect FOLDER --values --against file.py:name lists every value of one step "
    "beside PyTorch's; a refused export keeps its folder with ExportOptions(allow_uncertified=True)"
)
_NEXT_STEPS = {
    "replay": "on the machine that exported it, run rw.verify(folder, against=module): if that "
    "passes, compare the onnxruntime here with the one under provenance in manifest.json; if it "
    "fails, export again",
    "batch": "look in forward for a mean, a norm or a reshape over the batch axis, and keep memory "
    "as (layers, batch, features)",
    "reset": "the file keeps state that is not memory, or draws random numbers: roadworthy inspect "
    "FOLDER --operators lists its operators",
    "bits": "the compiler changes results: leave out of CC what lets it fuse sums and products "
    "(-DPOLICY_FAST, -ffp-contract=fast)",
    "fresh steps": _COMPARE_VALUES + _LIMITS,
    "logits": _COMPARE_VALUES,
    "choices": _COMPARE_VALUES,
    "teacher": _COMPARE_VALUES,
    "free run": "memory goes another way than in the original. Of a module: compare memory=… with "
    "what forward returns and writes. Of an environment: register what the named value is computed "
    "from as Input or Memory, and set it in the environment's reset" + _LIMITS,
    "closed loop": "if teacher failed too, start there; more episodes=… narrow the interval, and "
    "margin=… says by how much the mean return may differ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The worst place of one port: how far, where, and both values.

    failures   in how many steps the port was out of tolerance
    element    the name of the element, where the port has names
    allowed    how far it may be
    roundings  how many times further from the exact policy than PyTorch itself, where measured
    """

    port: str
    absolute: float
    relative: float
    step: int
    index: tuple[int, ...]
    expected: float
    got: float
    failures: int = 0
    element: str = ""
    allowed: float = 0.0
    roundings: float | None = None

    @property
    def share(self) -> float:
        """How much of what is allowed it takes: more than 1 is too far off."""
        if self.allowed > 0:
            return self.absolute / self.allowed
        return math.inf if self.absolute > 0 else 0.0

    def __str__(self) -> str:
        named = [str(each) for each in self.index]
        if self.element:
            named[-1] = self.element
        place = "".join(f"[{each}]" for each in named)
        measured = f", {self.roundings:.2g}× PyTorch's own rounding" if self.roundings else ""
        return (
            f"{self.port}{place} at step {self.step}: expected {self.expected:.9g}, "
            f"got {self.got:.9g} (off by {self.absolute:.3g}, relative {self.relative:.1g}"
            f"{measured})"
        )

    def to_json(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim about the artifact and how it held.

    differences    the worst place of each port, within tolerance or not
    first_failure  the first place out of tolerance
    facts          what a check of this kind adds: ties, mean returns
    """

    name: str
    claim: str
    passed: bool
    steps: int
    differences: tuple[Difference, ...] = ()
    first_failure: Difference | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    target: str = DEFAULT
    device: str = "cpu"

    @property
    def title(self) -> str:
        """The name, with the target and the device where they are not the usual ones."""
        ran = self.target if self.device == "cpu" else f"{self.target} on {self.device}"
        return self.name if ran == DEFAULT else f"{ran} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The verdict over all checks. Any failing step of any check fails it.

    checks    every claim that was examined, and how it held
    seed      of the steps that were drawn: with the same seed come the same figures
    findings  where a difference begins and its likely cause, or, where nothing failed, what a
              person should look at
    """

    checks: tuple[Check, ...]
    seed: int
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are checks, and every one of them passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def steps(self) -> int:
        """How many steps were compared, in all checks together."""
        return sum(check.steps for check in self.checks)

    @property
    def worst(self) -> dict[str, Difference]:
        """Port → the difference of any check that takes most of what is allowed."""
        found: dict[str, Difference] = {}
        for check in self.checks:
            for each in check.differences:
                if each.port not in found or each.share > found[each.port].share:
                    found[each.port] = each
        return found

    @property
    def roundings(self) -> dict[str, float]:
        """Port → how many times further from the exact policy than PyTorch itself, at the worst."""
        found: dict[str, float] = {}
        for each in (each for check in self.checks for each in check.differences):
            if each.roundings is not None:
                found[each.port] = max(each.roundings, found.get(each.port, 0.0))
        return found

    def raise_if_failed(self) -> Certificate:
        """The certificate itself, or an error that names every failed check."""
        if self.failures:
            raise CertificateFailed(findings=[*self.failures, *self.findings])
        return self

    @property
    def failures(self) -> tuple[Finding, ...]:
        """One finding for each failed check: what differed, and what to do next."""
        return tuple(self._failed())

    def _failed(self) -> Iterator[Finding]:
        if not self.checks:
            yield Finding(
                code=CertificateFailed.code,
                what="nothing was checked: every target was left out",
                hint="RW213 says why each was left out; verify(…, trust=True) runs those that are "
                "code",
            )
        for check in self.checks:
            if not check.passed:
                yield Finding(
                    code=CertificateFailed.code,
                    where=check.title,
                    what=_what_failed(check),
                    hint=self._next_step(check),
                )

    def _next_step(self, check: Check) -> str:
        """What to do about a failed check: the findings beside it where they name a cause."""
        found = {finding.code for finding in self.findings}
        begins = "RW301 names the first value in the graph that differs"
        if "RW320" in found:
            return "RW320 names the likely cause" + (f", {begins}" if "RW301" in found else "")
        if "RW301" in found:
            return f"{begins}, and its line"
        live = any(each.name == "fresh steps" for each in self.checks)
        name = "fresh steps" if check.name == "replay" and live else check.name
        return _NEXT_STEPS.get(name, "")

    def to_json(self) -> dict[str, Any]:
        """What `certificate.json` holds."""
        return {
            "version": VERSION,
            "passed": self.passed,
            "seed": self.seed,
            "checks": [_check_json(check) for check in self.checks],
            "findings": [asdict(finding) for finding in self.findings],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        if data.get("version") != VERSION:
            raise BundleError(
                f"the certificate has version {data.get('version')}, this release reads {VERSION}",
                hint="export the bundle again, or use the release that wrote it",
            )
        return cls(
            checks=tuple(_check(each) for each in data["checks"]),
            seed=data["seed"],
            findings=tuple(Finding(**each) for each in data["findings"]),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Certificate:
        """The certificate in the bytes of a `certificate.json`."""
        read = from_json(data, where="certificate.json")
        with understood("certificate.json"):
            return cls.from_json(read)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from roadworthy.spec.certificate_html import fragment  # a robot has no notebook

        return fragment(self)

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        lines = [f"certificate {verdict}: {self.steps} steps in {len(self.checks)} checks"]
        width = max((len(check.title) for check in self.checks), default=0)
        for check in self.checks:
            mark = "ok  " if check.passed else "FAIL"
            lines.append(f"  {mark} {check.title:<{width}} {check.steps:>5} steps  {check.claim}")
            if check.first_failure:
                lines.append(f"       first failure: {check.first_failure}")
        lines += [f"  worst {each}" for each in self.worst.values()]
        lines += list(self._measured())
        lines += [f"  {finding.severity}: {finding}" for finding in self.findings]
        return "\n".join(lines)

    def _measured(self) -> Iterator[str]:
        """What the worst ratio is, and what could not be measured."""
        if self.roundings:
            furthest = max(self.roundings.values())
            far = "no further" if furthest <= ROUNDINGS else "further"
            yield (
                f"  {far} from the exact policy than {furthest:.2g}× PyTorch itself "
                f"({ROUNDINGS:g}× is allowed)"
            )
        reasons = {
            check.facts["no_float64"] for check in self.checks if "no_float64" in check.facts
        }
        for reason in sorted(reasons):
            yield f"  no float64 ({reason}): the twins of the original stand for it"
        fixed = [check.title for check in self.checks if check.facts.get("measured") is False]
        if fixed:
            yield f"  rounding was not measured, fixed tolerances hold: {', '.join(fixed)}"


def _what_failed(check: Check) -> str:
    if check.first_failure:
        return str(check.first_failure)
    return check.claim if check.steps else f"no step was compared ({check.claim})"


def _check_json(check: Check) -> dict[str, Any]:
    first = check.first_failure
    return {
        "target": check.target,
        "device": check.device,
        "name": check.name,
        "claim": check.claim,
        "passed": check.passed,
        "steps": check.steps,
        "differences": [_finite(each.to_json()) for each in check.differences],
        "first_failure": _finite(first.to_json()) if first else None,
        "facts": dict(check.facts),
    }


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    """Strict JSON has no NaN and no infinity; they are written as words that `float` reads."""
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in data.items()
    }


def _check(data: Mapping[str, Any]) -> Check:
    first = data["first_failure"]
    return Check(
        name=data["name"],
        claim=data["claim"],
        passed=data["passed"],
        steps=data["steps"],
        differences=tuple(_read(each) for each in data["differences"]),
        first_failure=_read(first) if first else None,
        facts=data["facts"],
        target=data["target"],
        device=data["device"],
    )


def _read(data: Mapping[str, Any]) -> Difference:
    values = dict(data) | {"index": tuple(data["index"])}
    for key in ("absolute", "relative", "expected", "got", "allowed"):
        values[key] = float(data[key])
    if data["roundings"] is not None:
        values["roundings"] = float(data["roundings"])
    return Difference(**values)
