"""An engine for a target on a device, and the files that it opens."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from roadworthy.errors import BundleError, UsageError
from roadworthy.runtime.engine import AnyEngine, Artifact, EngineType
from roadworthy.runtime.trust import judged_files
from roadworthy.spec import targets


def chosen(wanted: str | None, present: tuple[str, ...], *, where: str, device: str = "cpu") -> str:
    """The target that was asked for, or the one for the device, if the policy has that form."""
    wanted = targets.get(wanted or targets.preferred(device, present)).name
    if wanted in present or targets.get(wanted).made_from in present:
        return wanted
    other = present[0]
    instead = f"engine={other!r}" + (", trust=True" if targets.get(other).code else "")
    raise BundleError(
        f"the bundle has no {wanted} target, only {', '.join(present)}",
        code="RW210",
        where=where,
        hint=f"load with {instead}, or export with targets=[{wanted!r}, …]",
    )


def files_from(target: str, present: tuple[str, ...], *, trust: bool) -> str:
    """The target whose files an engine opens: its own, or those it can be made from.

    What is code is made again from data wherever that lies beside it and nobody vouches for it.
    """
    source = targets.get(target).made_from
    return source if source in present and not (trust and target in present) else target


def opened(
    target: str, artifact: Artifact, *, source: str, device: str, trust: bool, threads: int
) -> AnyEngine:
    """The engine of a target on a device, over the files of the target `source`.

    What is code is opened only if it is trusted.
    """
    row = targets.get(target)
    if threads < 1:
        raise UsageError(f"threads must be at least 1, got {threads}")
    kind = targets.kind(device)
    if kind not in row.engines:
        raise UsageError(
            f"the target {target} has no engine for the device {device!r}",
            hint=f"it runs on {', '.join(row.engines)}",
        )
    files = judged_files(source, artifact.files, trust=trust, where=artifact.where)
    engine = cast("EngineType", targets.imported(row.engines[kind]))
    return engine.open(replace(artifact, files=files), threads=threads, device=device)
