"""`compare`: two bundles of one signature, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.errors.progress import Progress, told
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime.gym.returns import Returns, compare_returns
from roadworthy.runtime.load import from_bundle
from roadworthy.runtime.policy import Policy
from roadworthy.show import pictures, tables
from roadworthy.show.origin import assumptions, normalizers
from roadworthy.show.page import document, save, section
from roadworthy.show.recording import step_times_us
from roadworthy.show.side_by_side import (
    Drive,
    Env,
    PortGap,
    driven,
    port_gaps,
    refuse_other_signature,
)
from roadworthy.spec.bundle import CERTIFICATE, Bundle
from roadworthy.spec.html import Html, Part, joined, tag
from roadworthy.spec.limits import size_text
from roadworthy.spec.port import Array
from roadworthy.spec.run import Run, outputs_of
from roadworthy.spec.trace import refuse_unfit

RECORDED = "recorded observations"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyComparison:
    """Two policies of one signature on the same observations and episodes.

    names     of the two, as they are shown
    steps     how many steps were compared, by where the observations come from
    gaps      how far each output is apart, by where the observations come from
    returns   the paired test of the returns, where an environment was given
    latency   median and 99th percentile of a step of each, in microseconds
    facts     what else differs: sizes, memory, whether each has passed
    """

    names: tuple[str, str]
    steps: dict[str, int]
    gaps: dict[str, tuple[PortGap, ...]]
    returns: Returns | None
    each_return: tuple[tuple[float, ...], tuple[float, ...]] | None
    latency: tuple[tuple[float, float], tuple[float, float]]
    facts: dict[str, tuple[str, str]]

    def rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """Where, output, equal steps, mean and worst distance, and the place of the worst."""
        return [
            (
                where,
                gap.port,
                f"{100 * gap.equal:.1f} %",
                _far(gap),
                f"{gap.worst:.3g}",
                f"{gap.element} at step {gap.step}: {gap.values[0]:.4g} and {gap.values[1]:.4g}"
                if gap.worst
                else "",
            )
            for where, gaps in self.gaps.items()
            for gap in gaps
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "steps": self.steps,
            "gaps": {where: [asdict(gap) for gap in gaps] for where, gaps in self.gaps.items()},
            "returns": self.returns.to_json() if self.returns else None,
            "each_return": self.each_return,
            "latency_us": [dict(zip(("p50", "p99"), each, strict=True)) for each in self.latency],
            "facts": self.facts,
        }

    def __str__(self) -> str:
        lines = [f"{self.names[0]} and {self.names[1]}"]
        lines += ["  " + "  ".join(row).rstrip() for row in self.rows()]
        lines += [f"  {name}: {one} and {other}" for name, (one, other) in self.facts.items()]
        return "\n".join([*lines, *([f"  {self.returns}"] if self.returns else [])])


def _far(gap: PortGap) -> str:
    return f"{gap.mean:.3g} ({100 * gap.share:.2g} % of its spread)"


@answers
def compare(
    one: str | os.PathLike[str],
    other: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    env: Env | None = None,
    episodes: int = 20,
    seed: int = 0,
    canary: bool = True,
    progress: Progress = None,
) -> PolicyComparison:
    """Two bundles of one signature, on the same observations and episodes. Needs no PyTorch.

    Both see the steps that were recorded for each of them, every one with its own memory. With
    `env`, each plays the same episodes, and the second also sees what the first saw. Signatures
    that differ are refused, with what differs; memory may differ. `output` is an HTML report.
    """
    bundles = (Bundle.open(one), Bundle.open(other))
    refuse_other_signature(bundles[0].signature, bundles[1].signature)
    policies = tuple(from_bundle(bundle, seed=seed, canary=canary) for bundle in bundles)
    traces = [bundle.trace for bundle in bundles]
    for bundle, trace in zip(bundles, traces, strict=True):
        refuse_unfit(trace, bundle.signature)
    names = _names(bundles)
    with told(progress) as say:
        scripts: dict[str, Run] = {
            f"{RECORDED} of {name}": trace for name, trace in zip(names, traces, strict=True)
        }
        drives = _drives(policies, names, env, episodes, seed, say)
        if drives:
            scripts |= {f"episodes of {names[0]}": drives[0].run}
        say("comparing")
        both = {
            where: [_outputs(policy, script) for policy in policies]
            for where, script in scripts.items()
        }
        times = [step_times_us(policy, traces[0]) for policy in policies]
    signature = bundles[0].signature
    found = PolicyComparison(
        names=names,
        steps={where: script.steps * script.rows for where, script in scripts.items()},
        gaps={where: port_gaps(signature, *sides) for where, sides in both.items()},
        returns=compare_returns(drives[0].returns, drives[1].returns, margin=None, seed=seed)
        if drives
        else None,
        each_return=(drives[0].returns, drives[1].returns) if drives else None,
        latency=(_quantiles(times[0]), _quantiles(times[1])),
        facts=_facts(bundles, times),
    )
    if output is not None:
        save(
            _page(found, times, str(env) if isinstance(env, str) else "the environment"),
            Path(output),
        )
    return found


def _outputs(policy: Policy, script: Run) -> dict[str, Array]:
    policy.reset()
    got = outputs_of(policy, script)
    policy.reset()
    return got


def _drives(
    policies: Sequence[Policy],
    names: Sequence[str],
    env: Env | None,
    episodes: int,
    seed: int,
    say: Callable[[str], None],
) -> list[Drive]:
    """The episodes of both, or nothing without an environment."""
    if env is None:
        return []
    found = []
    for policy, name in zip(policies, names, strict=True):
        say(f"playing {name}")
        found.append(driven(policy, env, episodes, seed=seed))
    return found


def _names(bundles: tuple[Bundle, Bundle]) -> tuple[str, str]:
    """The names of the folders, or their paths where those are the same."""
    short = [bundle.folder.resolve().name for bundle in bundles]
    if short[0] != short[1]:
        return short[0], short[1]
    long = [str(bundle.folder) for bundle in bundles]
    return (long[0], long[1]) if long[0] != long[1] else (f"{long[0]} (1)", f"{long[1]} (2)")


def _quantiles(taken: Array) -> tuple[float, float]:
    p50, p99 = np.percentile(taken, (50, 99))
    return float(p50), float(p99)


def _facts(bundles: tuple[Bundle, Bundle], times: Sequence[Array]) -> dict[str, tuple[str, str]]:
    rows = {
        "certificate": [_verdict(bundle) for bundle in bundles],
        "normaliser in front": [normalizers(bundle) for bundle in bundles],
        "assumed": [assumptions(bundle) or "nothing" for bundle in bundles],
        "size": [size_text(sum(map(len, bundle.files.values()))) for bundle in bundles],
        "memory": [
            ", ".join(f"{each.name} {each}" for each in bundle.signature.memory) or "none"
            for bundle in bundles
        ],
        "median step": [f"{np.median(each):.1f} µs" for each in times],
        "99 % of steps below": [f"{np.percentile(each, 99):.1f} µs" for each in times],
    }
    return {name: (one, other) for name, (one, other) in rows.items()}


def _verdict(bundle: Bundle) -> str:
    if CERTIFICATE not in bundle.files:
        return "none"
    return "passed" if bundle.certificate.passed else "failed"


def _page(found: PolicyComparison, times: Sequence[Array], where: str) -> str:
    steps = sum(found.steps.values())
    equal = all(gap.worst == 0 for gaps in found.gaps.values() for gap in gaps)
    word = "the same" if equal else "different"
    head = joined(
        (
            tag("strong", word, id="verdict", class_="verdict passed" if equal else "verdict"),
            tag("p", f"{steps:,} steps of both on the same observations"),
        )
    )
    rows: list[Sequence[Part]] = [tuple(row) for row in found.rows()]
    columns = ("observations", "output", ">equal steps", ">mean distance", ">worst", "where")
    outputs = section(
        "outputs", "Outputs", tables.table(columns, rows, caption="How far apart they are")
    )
    listed: list[Sequence[Part]] = [(name, *both) for name, both in found.facts.items()]
    facts = section(
        "facts",
        "Side by side",
        tables.table(("", *found.names), listed, caption="What else differs"),
    )
    sections: list[Html | None] = [outputs, facts]
    if found.each_return:
        sides: dict[str, Sequence[float]] = dict(zip(found.names, found.each_return, strict=True))
        sections.append(pictures.returns_section(sides, None, where))
    latency = dict(zip(found.names, times, strict=True))
    sections.append(pictures.latency_section(latency))
    return document(f"{found.names[0]} and {found.names[1]}", head, sections)
