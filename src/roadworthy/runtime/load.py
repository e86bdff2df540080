"""From a path to a policy."""

from __future__ import annotations

import json
import os
from pathlib import Path

from roadworthy.errors import BundleCorrupt, BundleError, RoadworthyError, did_you_mean
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.signature import Signature

SIGNATURE_KEY = "roadworthy.signature"


def load(path: str | os.PathLike[str], *, threads: int = 1, seed: int | None = None) -> Policy:
    """The policy in a bundle folder, or in a lone `.onnx` file that Roadworthy wrote.

    Every file of a bundle is compared with its SHA-256 before anything parses it; a lone file
    has no such proof. `seed` is for policies that draw noise; without it each load draws anew.
    """
    place = Path(path)
    if place.is_dir():
        return from_bundle(Bundle.open(place), threads=threads, seed=seed)
    if not place.is_file():
        siblings = [each.name for each in place.parent.glob("*")] if place.parent.is_dir() else []
        raise BundleError(f"{place} does not exist", hint=did_you_mean(place.name, siblings))
    engine = OnnxEngine(place.read_bytes(), threads=threads)
    try:
        text = engine.metadata.get(SIGNATURE_KEY)
        signature = None if text is None else Signature.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RoadworthyError) as error:
        raise BundleCorrupt(
            "the signature inside the file is damaged",
            where=str(place),
            hint="copy the file again from its source, or load the bundle folder",
        ) from error
    if signature is None:
        raise BundleError(
            f"{place} carries no signature: Roadworthy did not write it",
            hint="export the policy with roadworthy; a foreign file says nothing of its memory",
        )
    return Policy(signature, engine, seed=seed)


def from_bundle(bundle: Bundle, *, threads: int = 1, seed: int | None = None) -> Policy:
    """The policy of a bundle that is already open."""
    engine = OnnxEngine(bundle.files[POLICY], threads=threads)
    return Policy(bundle.signature, engine, seed=seed)
