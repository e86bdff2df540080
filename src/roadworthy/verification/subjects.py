"""What an artifact is compared with, made from what the user holds."""

from __future__ import annotations

from typing import Any

from roadworthy.errors import CertificateFailed, UsageError
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.signature import Signature
from roadworthy.verification.ports import contradictions


def subject_of(bundle: Bundle, against: Any, normalizer: Any = None) -> Any:
    """What the artifact is compared with, as the bundle's recipe composes it."""
    from roadworthy.capture.recipe import source_from
    from roadworthy.capture.record import ModuleSubject
    from roadworthy.capture.source import Source

    if hasattr(against, "original"):
        return against
    if isinstance(against, Source):
        _refuse_other_source(bundle.signature, against)
        return ModuleSubject(against)
    recipe = bundle.manifest["recipe"]
    if "environment" in recipe:
        raise UsageError(
            f"the bundle was made from the environment {recipe['environment']}",
            hint="verify it alone, or compare it with evaluate(env, …)",
        )
    if "rewritten" in recipe:
        raise UsageError(
            f"the bundle was made by an adapter; a bare {type(against).__name__} does not say how",
            code="RW147",
            where="against",
            hint=f"rw.verify({str(bundle.folder)!r}, against={recipe['rewritten']})",
        )
    return ModuleSubject(source_from(against, recipe, bundle.signature, normalizer=normalizer))


def _refuse_other_source(signature: Signature, source: Any) -> None:
    described = [*source.tensors, *(mask for mask in source.masks if mask not in source.tensors)]
    names = [port.name for port in signature.inputs]
    if sorted(described) != sorted(names):
        raise UsageError(
            f"the Source takes {', '.join(described)}, the bundle {', '.join(names)}",
            where="against",
            hint="pass the Source that the bundle was exported from",
        )
    wrong = list(contradictions(signature, source))
    if wrong:
        raise CertificateFailed(findings=wrong)
