"""`report`: a bundle, a certificate or a flight as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError
from roadworthy.errors.progress import Progress, told
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime.gym.play import play
from roadworthy.runtime.gym.returns import Returns
from roadworthy.runtime.load import from_bundle
from roadworthy.runtime.policy import Policy
from roadworthy.show import pictures, tables
from roadworthy.show.flight_report import flight_page
from roadworthy.show.graph import graph_section
from roadworthy.show.influence import influence
from roadworthy.show.origin import origin_section
from roadworthy.show.page import document, save
from roadworthy.show.recording import replayed, step_times_us
from roadworthy.spec.bundle import CERTIFICATE, POLICY, Bundle
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.flight import FlightRecord
from roadworthy.spec.html import Html, joined, tag
from roadworthy.spec.trace import refuse_unfit

Env = str | Callable[[], Any]


@answers
def report(
    subject: str | os.PathLike[str] | Bundle | Certificate | FlightRecord,
    output: str | os.PathLike[str] = "report.html",
    *,
    bundle: str | os.PathLike[str] | Bundle | None = None,
    certificate: Certificate | None = None,
    env: Env | None = None,
    episodes: int = 20,
    seed: int = 0,
    canary: bool = True,
    progress: Progress = None,
) -> Path:
    """The path of one self-contained HTML file about a bundle, a certificate alone, or a flight.

    It needs no network and no PyTorch. A bundle is replayed, timed and nudged while the report is
    written. `certificate` is shown in place of the bundle's own: pass what `rw.verify` gave, and
    the returns of its closed loop are in the picture. `env` plays the artifact for `episodes` more.
    The file of a `FlightRecorder` is drawn, and repeated by the `bundle` that flew.
    """
    place = Path(output)
    given = _given(subject)
    _refuse_together(given, bundle, certificate, env)
    with told(progress) as say:
        if isinstance(given, Certificate):
            written = _written("Certificate", given, _of_certificate(given))
        elif isinstance(given, FlightRecord):
            flew = bundle if bundle is None or isinstance(bundle, Bundle) else Bundle.open(bundle)
            head, sections = flight_page(given, flew, canary=canary, say=say)
            written = document(f"Flight of {given.origin.name or 'a policy'}", head, sections)
        else:
            shown = certificate or _own_certificate(given)
            loop = None if env is None else (env, episodes)
            sections = _of_bundle(given, shown, loop, seed=seed, canary=canary, say=say)
            written = _written(given.folder.resolve().name, shown, sections)
    return save(written, place)


def _given(
    subject: str | os.PathLike[str] | Bundle | Certificate | FlightRecord,
) -> Bundle | Certificate | FlightRecord:
    if isinstance(subject, (Bundle, Certificate, FlightRecord)):
        return subject
    return FlightRecord.open(subject) if Path(subject).is_file() else Bundle.open(subject)


def _refuse_together(
    given: Bundle | Certificate | FlightRecord,
    bundle: object,
    certificate: Certificate | None,
    env: Env | None,
) -> None:
    """An error where something is passed that this subject has no use for."""
    if isinstance(given, Certificate) and (env is not None or certificate is not None):
        raise UsageError(
            "a certificate alone cannot be played or compared",
            hint="pass the bundle, and the certificate beside it: "
            "rw.report('walker/', certificate=…)",
        )
    if isinstance(given, FlightRecord) and (env is not None or certificate is not None):
        raise UsageError(
            "a flight is repeated by its bundle, and neither played nor certified",
            hint="rw.report('flight.npz', bundle='walker/')",
        )
    if not isinstance(given, FlightRecord) and bundle is not None:
        raise UsageError(
            "bundle= is what flew, and this is no flight", where="bundle",
            hint="rw.report('flight.npz', bundle='walker/')",
        )  # fmt: skip


def _own_certificate(bundle: Bundle) -> Certificate:
    if CERTIFICATE not in bundle.files:
        raise UsageError(
            f"{bundle.folder} has no certificate",
            hint="rw.report(folder, certificate=rw.verify(folder))",
        )
    return bundle.certificate


def _of_certificate(certificate: Certificate) -> list[Html | None]:
    return [
        tables.checks_section(certificate),
        *_certified_returns(certificate),
        tables.findings_section((*certificate.failures, *certificate.findings)),
    ]


def _of_bundle(
    bundle: Bundle,
    certificate: Certificate,
    loop: tuple[Env, int] | None,
    *,
    seed: int,
    canary: bool,
    say: Callable[[str], None],
) -> list[Html | None]:
    signature = bundle.signature
    trace = bundle.trace
    refuse_unfit(trace, signature)
    policy = from_bundle(bundle, seed=seed, canary=canary)
    say("replaying the recorded steps")
    replay = replayed(policy, trace)
    say("measuring")
    times = step_times_us(policy, trace)
    moved = influence(policy, trace)
    played = [] if loop is None else [_played(policy, *loop, seed=seed, say=say)]
    model = bundle.files.get(POLICY)
    return [
        tables.checks_section(certificate),
        pictures.differences_section(replay),
        pictures.overlay_section(replay, signature),
        *_certified_returns(certificate),
        *played,
        pictures.latency_section({"Policy.step": times}),
        pictures.memory_section(replay, signature.memory),
        pictures.influence_section(moved) if moved else None,
        graph_section(model) if model else None,
        tables.findings_section((*certificate.failures, *certificate.findings)),
        tables.ports_section(signature),
        origin_section(bundle),
        tables.provenance_section(bundle),
    ]


def _certified_returns(certificate: Certificate) -> list[Html]:
    """A section for each closed loop of the certificate."""
    found = []
    for check in certificate.checks:
        each = check.facts.get("each_return")
        if each:
            sides = {"original": each["original"], "artifact": each["artifact"]}
            compared = Returns.from_json(check.facts["returns"])
            found.append(pictures.returns_section(sides, compared, "the certificate's closed loop"))
    return found


def _played(
    policy: Policy, env: Env, episodes: int, *, seed: int, say: Callable[[str], None]
) -> Html:
    earned: Sequence[float] = play(policy, env, episodes, seed=seed, progress=say).returns
    policy.reset()
    where = env if isinstance(env, str) else getattr(env, "__name__", "the environment")
    return pictures.returns_section({"artifact": earned}, None, where)


def _written(title: str, certificate: Certificate, sections: Sequence[Html | None]) -> str:
    head = joined((tables.verdict(certificate), tag("p", tables.headline(certificate))))
    return document(title, head, sections)
