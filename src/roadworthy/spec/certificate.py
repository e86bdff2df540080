"""The certificate: what was compared, how many steps, the worst difference, the verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from roadworthy.errors import BundleError, CertificateFailed, Finding
from roadworthy.targets import DEFAULT

VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The worst place of one port: how far, where, and both values.

    failures  in how many steps the port was out of tolerance
    element   the name of the element, where the port has names
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

    def __str__(self) -> str:
        named = [str(each) for each in self.index]
        if self.element:
            named[-1] = self.element
        place = "".join(f"[{each}]" for each in named)
        return (
            f"{self.port}{place} at step {self.step}: expected {self.expected:.9g}, "
            f"got {self.got:.9g} (off by {self.absolute:.3g}, relative {self.relative:.1g})"
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
        """Port → the largest absolute difference in any check."""
        found: dict[str, Difference] = {}
        for check in self.checks:
            for each in check.differences:
                if each.port not in found or each.absolute > found[each.port].absolute:
                    found[each.port] = each
        return found

    def raise_if_failed(self) -> Certificate:
        """The certificate itself, or an error that names every failed check."""
        failed = list(self._failed())
        if failed:
            raise CertificateFailed(findings=[*failed, *self.findings])
        return self

    def _failed(self) -> Iterator[Finding]:
        if not self.checks:
            yield Finding(code=CertificateFailed.code, what="nothing was checked")
        for check in self.checks:
            if not check.passed:
                yield Finding(
                    code=CertificateFailed.code,
                    where=check.title,
                    what=str(check.first_failure or check.claim),
                    hint=f"it does not hold that {check.claim}" if check.first_failure else "",
                )

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
            raise BundleError(f"the certificate has version {data.get('version')}, not {VERSION}")
        return cls(
            checks=tuple(_check(each) for each in data["checks"]),
            seed=data["seed"],
            findings=tuple(Finding(**each) for each in data["findings"]),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Certificate:
        """The certificate in the bytes of a `certificate.json`."""
        return cls.from_json(json.loads(data))

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
        lines += [f"  {finding.severity}: {finding}" for finding in self.findings]
        return "\n".join(lines)


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
    for key in ("absolute", "relative", "expected", "got"):
        values[key] = float(data[key])
    return Difference(**values)
