"""From a path to a policy."""

from __future__ import annotations

import json
import os
from pathlib import Path

from roadworthy import targets
from roadworthy.errors import BundleCorrupt, BundleError, RoadworthyError, did_you_mean
from roadworthy.runtime import engines, onnx_file
from roadworthy.runtime.engine import Artifact, Engine, OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import SIGNATURE_KEY, Bundle
from roadworthy.spec.signature import Signature


def load(
    path: str | os.PathLike[str],
    *,
    engine: str | None = None,
    device: str = "cpu",
    trust: bool = False,
    threads: int = 1,
    seed: int | None = None,
) -> Policy:
    """The policy in a bundle folder, or in a lone file of one that Roadworthy wrote.

    Every file of a bundle is compared with its SHA-256 before anything parses it; a lone file
    has no such proof. `engine` chooses the target to run, `onnx` unless said otherwise, and
    `device` where it runs. Targets that are code are opened only with `trust=True`. `seed` is
    for policies that draw noise; without it each load draws anew.
    """
    place = Path(path)
    if engine is not None:
        targets.get(engine)
    if place.is_dir():
        bundle = Bundle.open(place)
        return from_bundle(
            bundle, engine=engine, device=device, trust=trust, threads=threads, seed=seed
        )
    if not place.is_file():
        siblings = [each.name for each in place.parent.glob("*")] if place.parent.is_dir() else []
        raise BundleError(f"{place} does not exist", hint=did_you_mean(place.name, siblings))
    target, artifact = _alone(place.read_bytes(), str(place), engine)
    opened = engines.opened(target, artifact, device=device, trust=trust, threads=threads)
    return Policy(artifact.signature, opened, seed=seed)


def from_bundle(
    bundle: Bundle,
    *,
    engine: str | None = None,
    device: str = "cpu",
    trust: bool = False,
    threads: int = 1,
    seed: int | None = None,
) -> Policy:
    """The policy of a bundle that is already open."""
    opened = engine_of(bundle, engine, device=device, trust=trust, threads=threads)
    return Policy(bundle.signature, opened, seed=seed)


def engine_of(
    bundle: Bundle,
    engine: str | None = None,
    *,
    device: str = "cpu",
    trust: bool = False,
    threads: int = 1,
) -> Engine:
    """The engine that runs a bundle; any number of policies may share it, one after another."""
    target = engines.chosen(engine, tuple(bundle.targets), where=str(bundle.folder))
    files = bundle.files_of(engines.files_from(target, tuple(bundle.targets), trust=trust))
    artifact = Artifact(files=files, signature=bundle.signature, where=next(iter(files)))
    return engines.opened(target, artifact, device=device, trust=trust, threads=threads)


def _alone(data: bytes, where: str, engine: str | None) -> tuple[str, Artifact]:
    """The target that a lone file is, with the signature that it carries."""
    if data.startswith(b"PK"):  # every .pt2 is a zip, and no .onnx begins like one
        from roadworthy.runtime.archive import Archive  # a robot without one starts without it

        archive = Archive(data, where=where)
        found, signature = archive.target, archive.signature
    else:
        found, signature = "onnx", _onnx_signature(data, where)
    target = engines.chosen(engine or found, (found,), where=where)
    if signature is None:
        raise BundleError(
            f"{where} has no signature: Roadworthy did not write it",
            hint="export the policy with Roadworthy: a foreign file does not say what its memory "
            "is",
        )
    return target, Artifact(files={Path(where).name: data}, signature=signature, where=where)


def _onnx_signature(data: bytes, where: str) -> Signature | None:
    text = onnx_file.metadata(data).get(SIGNATURE_KEY)
    if text is None:
        OnnxEngine(data)  # what is no model at all is refused here, with onnxruntime's reason
        return None
    try:
        return Signature.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RoadworthyError) as error:
        raise BundleCorrupt(
            "the signature inside the file is damaged",
            where=where,
            hint="copy the file again from its source, or load the bundle folder",
        ) from error
