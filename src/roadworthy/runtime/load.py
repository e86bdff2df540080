"""From a path to a policy."""

from __future__ import annotations

import json
import os
from pathlib import Path

from roadworthy import targets
from roadworthy.errors import BundleCorrupt, BundleError, RoadworthyError, did_you_mean
from roadworthy.runtime import engines
from roadworthy.runtime.engine import Engine, OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import SIGNATURE_KEY, Bundle
from roadworthy.spec.signature import Signature


def load(
    path: str | os.PathLike[str],
    *,
    engine: str | None = None,
    trust: bool = False,
    threads: int = 1,
    seed: int | None = None,
) -> Policy:
    """The policy in a bundle folder, or in a lone file of one that Roadworthy wrote.

    Every file of a bundle is compared with its SHA-256 before anything parses it; a lone file
    has no such proof. `engine` chooses the target to run: `onnx` unless said otherwise. The
    others are code, and are opened only with `trust=True`. `seed` is for policies that draw
    noise; without it each load draws anew.
    """
    place = Path(path)
    if engine is not None:
        targets.get(engine)
    if place.is_dir():
        bundle = Bundle.open(place)
        return from_bundle(bundle, engine=engine, trust=trust, threads=threads, seed=seed)
    if not place.is_file():
        siblings = [each.name for each in place.parent.glob("*")] if place.parent.is_dir() else []
        raise BundleError(f"{place} does not exist", hint=did_you_mean(place.name, siblings))
    data = place.read_bytes()
    if data.startswith(b"PK"):  # every .pt2 is a zip, and no .onnx begins like one
        opened = _from_archive(data, str(place), engine=engine, trust=trust, threads=threads)
        return Policy(*opened, seed=seed)
    engines.chosen(engine, ("onnx",), where=str(place))
    return Policy(*_from_onnx(data, place, threads=threads), seed=seed)


def from_bundle(
    bundle: Bundle,
    *,
    engine: str | None = None,
    trust: bool = False,
    threads: int = 1,
    seed: int | None = None,
) -> Policy:
    """The policy of a bundle that is already open."""
    opened = engine_of(bundle, engine, trust=trust, threads=threads)
    return Policy(bundle.signature, opened, seed=seed)


def engine_of(
    bundle: Bundle, engine: str | None = None, *, trust: bool = False, threads: int = 1
) -> Engine:
    """The engine that runs a bundle; any number of policies may share it, one after another."""
    target = engines.chosen(engine, tuple(bundle.targets), where=str(bundle.folder))
    file, data = next(iter(bundle.files_of(target).items()))
    return engines.opened(target, data, bundle.signature, where=file, trust=trust, threads=threads)


def _from_onnx(data: bytes, place: Path, *, threads: int) -> tuple[Signature, Engine]:
    opened = OnnxEngine(data, threads=threads)
    try:
        text = opened.metadata.get(SIGNATURE_KEY)
        signature = None if text is None else Signature.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RoadworthyError) as error:
        raise BundleCorrupt(
            "the signature inside the file is damaged",
            where=str(place),
            hint="copy the file again from its source, or load the bundle folder",
        ) from error
    return _carried(signature, str(place)), opened


def _from_archive(
    data: bytes, where: str, *, engine: str | None, trust: bool, threads: int
) -> tuple[Signature, Engine]:
    from roadworthy.runtime.archive import Archive  # only where there is one: robots start without

    archive = Archive(data, where=where)
    target = engines.chosen(engine or archive.target, (archive.target,), where=where)
    signature = _carried(archive.signature, where)
    opened = engines.opened(target, data, signature, where=where, trust=trust, threads=threads)
    return signature, opened


def _carried(signature: Signature | None, where: str) -> Signature:
    if signature is None:
        raise BundleError(
            f"{where} carries no signature: Roadworthy did not write it",
            hint="export the policy with roadworthy; a foreign file says nothing of its memory",
        )
    return signature
