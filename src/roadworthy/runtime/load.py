"""From a path to a policy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roadworthy.errors import BundleError, UsageError
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime import engines
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.engine import AnyEngine, Artifact, OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec import onnx_file, targets
from roadworthy.spec.bundle import SIGNATURE_KEY, Bundle, Origin, nearest, readable, restored
from roadworthy.spec.json_file import from_json
from roadworthy.spec.manifest import read_signature
from roadworthy.spec.signature import Signature


@answers
def load(
    path: str | os.PathLike[str],
    *,
    engine: str | None = None,
    device: str = "cpu",
    trust: bool = False,
    threads: int = 1,
    seed: int | None = None,
    canary: bool = True,
    providers: Sequence[str] = (),
) -> Policy:
    """The policy in a bundle folder, or in a lone file of one that Roadworthy wrote.

    Every file of a bundle is compared with its SHA-256 before anything parses it; a lone file
    has no such proof. `device` chooses where it runs ("cuda", "cuda:1": docs/gpu.md) and `engine`
    the target, `onnx` unless said otherwise; on "cuda", `torch_export` where the bundle has it;
    "wasm" is the target `c` in a sandbox (docs/c.md).
    Targets that are code are opened only with `trust=True`. `seed` is for policies that draw
    noise; without it each load draws anew. `providers` are those of onnxruntime, in its own
    words, in place of the ones that belong to the device. An ONNX file that was never
    loaded before is tried in a child process first, with limits (docs/security.md); `canary=False`
    leaves that out.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(
            f"expected the folder of a bundle, got a {type(path).__name__}",
            where="load(…)",
            hint="rw.load('folder/'): the one that rw.export wrote",
        )
    place = Path(path)
    engine, device = targets.placed(engine, device)
    if engine is not None:
        targets.get(engine, ("wasm",))
    if place.is_dir() or (not place.exists() and restored(place)):
        bundle = Bundle.open(place)
        return from_bundle(
            bundle, engine=engine, device=device, trust=trust, threads=threads, seed=seed,
            canary=canary, providers=providers,
        )  # fmt: skip
    if not place.is_file():
        raise BundleError(f"{place} does not exist", hint=nearest(place))
    with readable(place):
        data = place.read_bytes()
    source, target, artifact = _alone(data, str(place), engine, canary)
    artifact = replace(artifact, providers=_known(providers, target))
    opened = engines.opened(
        target, artifact, source=source, device=device, trust=trust, threads=threads
    )
    origin = Origin(name=place.name, sha256=hashlib.sha256(data).hexdigest())
    return Policy(artifact.signature, opened, seed=seed, watch=True, origin=origin)


def from_bundle(
    bundle: Bundle,
    *,
    engine: str | None = None,
    device: str = "cpu",
    trust: bool = False,
    threads: int = 1,
    seed: int | None = None,
    canary: bool = True,
    providers: Sequence[str] = (),
) -> Policy:
    """The policy of a bundle that is already open."""
    opened = engine_of(
        bundle, engine, device=device, trust=trust, threads=threads, canary=canary,
        providers=providers,
    )  # fmt: skip
    return Policy(bundle.signature, opened, seed=seed, watch=True, origin=bundle.origin)


def engine_of(
    bundle: Bundle,
    engine: str | None = None,
    *,
    device: str = "cpu",
    trust: bool = False,
    threads: int = 1,
    canary: bool = True,
    providers: Sequence[str] = (),
) -> AnyEngine:
    """The engine that runs a bundle; any number of policies may share it, one after another."""
    engine, device = targets.placed(engine, device)
    wanted = "onnx" if engine is None and providers else engine
    target = engines.chosen(wanted, tuple(bundle.targets), where=str(bundle.folder), device=device)
    source = engines.files_from(target, tuple(bundle.targets), trust=trust)
    files = bundle.files_of(source)
    artifact = Artifact(
        files=files, signature=bundle.signature, where=next(iter(files)), canary=canary,
        providers=_known(providers, target),
    )  # fmt: skip
    return engines.opened(
        target, artifact, source=source, device=device, trust=trust, threads=threads
    )


def _known(providers: Sequence[str], target: str) -> tuple[str, ...]:
    if isinstance(providers, str):
        raise UsageError(f"expected a list, got {providers!r}", where="providers")
    if providers and target != "onnx":
        raise UsageError(
            f"providers are onnxruntime's, and the target {target} does not run there",
            where="providers",
            hint="load with engine='onnx', or leave them out",
        )
    return tuple(providers)


def _alone(data: bytes, where: str, engine: str | None, canary: bool) -> tuple[str, str, Artifact]:
    """The target that a lone file is, the one that runs it, and the file with its signature."""
    if data.startswith(b"PK"):  # every .pt2 is a zip, and no .onnx begins like one
        from roadworthy.runtime.archive import Archive  # a robot without one starts without it

        archive = Archive(data, where=where)
        found, signature = archive.target, archive.signature
    else:
        found, signature = "onnx", onnx_signature(data, where)
        if signature is None:  # what is no model at all is refused here, with the reason
            refuse_unsafe(data, where=where, canary=canary)
            OnnxEngine(data)
    target = engines.chosen(engine or found, (found,), where=where)
    if signature is None:
        raise BundleError(
            f"{where} has no signature: Roadworthy did not write it",
            hint=f"roadworthy inspect {where} shows what it is; export the policy with Roadworthy: "
            "a foreign file does not say what its memory is",
        )
    files = {Path(where).name: data}
    return found, target, Artifact(files=files, signature=signature, where=where, canary=canary)


def onnx_signature(data: bytes, where: str) -> Signature | None:
    """The signature inside an ONNX file, read without opening it; None in a foreign one."""
    text = onnx_file.metadata(data).get(SIGNATURE_KEY)
    if text is None:
        return None
    inside = f"{where}, the signature inside"
    return read_signature(from_json(text, where=inside), where=inside)
