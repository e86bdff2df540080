"""What a bundle is compared with, made from what the user holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from roadworthy.api.to_source import to_source
from roadworthy.capture.recipe import source_from
from roadworthy.capture.source import Source
from roadworthy.environment.capture import capture_environment
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import CertificateFailed, UsageError
from roadworthy.frameworks import adapter_for, framework_of
from roadworthy.frameworks.files.beginning import looks_like_a_checkpoint
from roadworthy.frameworks.files.opening import open_checkpoint
from roadworthy.rules.fixes import as_its_ports_are
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.contradictions import contradictions, other_ports
from roadworthy.verification.originals.module import original_of
from roadworthy.verification.originals.original import Original

if TYPE_CHECKING:
    from roadworthy.frameworks import Described


# What a recipe may not hold: modules and functions have no form in JSON.
_SAID_AGAIN = {"normalizer", "method", "constants"}


def original_for(bundle: Bundle, against: Any, keywords: Mapping[str, Any]) -> Original:
    """The original that `against` is, with the keywords that the export was given."""
    if isinstance(against, Original):
        return against
    recipe = bundle.manifest["recipe"]
    if isinstance(against, (str, os.PathLike)):
        # What the file does not say was answered at the export.
        origin = recipe.get("checkpoint", {})
        trust = bool(keywords.get("trust"))
        _refuse_other_framework(origin.get("framework", ""), Path(against), trust=trust)
        said = origin.get("keywords", {})
        return _original(bundle, to_source(Path(against), **{**said, **keywords}))
    described = isinstance(against, (Source, EnvironmentSource))
    if not described and set(keywords) <= _SAID_AGAIN:
        _refuse_incomplete(bundle, against, recipe)
    plain = isinstance(against, torch.nn.Module) and adapter_for(against, keywords) is None
    if plain and set(keywords) <= _SAID_AGAIN:
        source = source_from(against, recipe, bundle.signature, **keywords)
        return original_of(as_its_ports_are(source))
    return _original(bundle, to_source(against, **keywords))


def _refuse_other_framework(framework: str, path: Path, *, trust: bool) -> None:
    """An error for a checkpoint of another framework than the one the bundle was made from."""
    if not framework or not looks_like_a_checkpoint(path):
        return
    found = framework_of(open_checkpoint(path, trust=trust)).name
    if not framework.startswith(found):
        raise UsageError(
            f"this is a file of {found}, the bundle was made from one of {framework}",
            where=f"against {path}",
            hint="pass the checkpoint that the bundle was exported from",
        )


def is_environment_of(policy: Any, env: Any) -> bool:
    """Whether `env` belongs to the framework of the policy, and says what the policy sees.

    Anything else is an environment to play in: a Gymnasium id, or a function that makes one.
    """
    adapter = adapter_for(policy)
    return adapter is not None and adapter.takes_env(env)


def _original(bundle: Bundle, source: Described) -> Original:
    signature = bundle.signature
    if isinstance(source, EnvironmentSource):
        captured = capture_environment(source)
        if _ports_alone(captured.program.signature) != _ports_alone(signature):
            apart = _ports_apart(captured.program.signature, signature)
            raise UsageError(
                f"the environment has other ports than the bundle: {apart}",
                where="against",
                hint="pass the environment that the bundle was exported from, registered the "
                "same way, "
                "or export again",
            )
        return captured
    other = other_ports(signature, source)
    if other:
        raise UsageError(findings=[other])
    wrong = list(contradictions(signature, source))
    if wrong:
        raise CertificateFailed(findings=wrong)
    return original_of(source)


def _ports_alone(signature: Signature) -> Signature:
    """The signature without what an export adds to the ports, such as `metadata=`."""
    return replace(signature, robot=None, frame_skip=None, period_s=None)


def _ports_apart(captured: Signature, signature: Signature) -> str:
    """The names that only one side has; or that it is their types that differ."""
    sides = [
        {port.name for port in (*one.inputs, *one.outputs)} | {each.name for each in one.memory}
        for one in (captured, signature)
    ]
    only = [
        f"only the {side} has {', '.join(sorted(names))}"
        for side, names in (("environment", sides[0] - sides[1]), ("bundle", sides[1] - sides[0]))
        if names
    ]
    return "; ".join(only) or "the same names, with other shapes, dtypes or limits"


def _refuse_incomplete(bundle: Bundle, against: Any, recipe: Mapping[str, Any]) -> None:
    """An error where the thing alone does not say how the bundle was made from it."""
    name = type(against).__name__
    if "environment" in recipe:
        raise UsageError(
            f"the bundle was made from the environment {recipe['environment']}, got a {name} alone",
            where="against",
            hint=f"rw.verify({str(bundle.folder)!r}, against=env, actor=actor)",
        )
    if recipe.get("rewritten"):
        raise UsageError(
            f"a {name} alone does not say how it was exported (exploration, env, outputs, …)",
            code="RW147",
            where="against",
            hint=f"rw.verify({str(bundle.folder)!r}, against=policy, {recipe['rewritten']})",
        )
