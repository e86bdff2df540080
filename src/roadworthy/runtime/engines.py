"""Which engine runs which target, and what must be said before a file that is code is opened."""

from __future__ import annotations

from typing import Any, cast

from roadworthy import targets
from roadworthy.errors import BundleError, UsageError
from roadworthy.runtime.engine import Engine, OnnxEngine
from roadworthy.spec.signature import Signature


def needs_trust(target: str) -> bool:
    """Whether opening the target runs what its author put into it."""
    return bool(targets.get(target).code)


def chosen(wanted: str | None, present: tuple[str, ...], *, where: str) -> str:
    """The target that was asked for, or the default, if the policy is there in that form."""
    wanted = targets.get(wanted or targets.DEFAULT).name
    if wanted in present:
        return wanted
    other = present[0]
    instead = f"engine={other!r}" + (", trust=True" if needs_trust(other) else "")
    raise BundleError(
        f"there is no {wanted} target here, only {', '.join(present)}",
        code="RW210",
        where=where,
        hint=f"load with {instead}, or export with targets=[{wanted!r}, …]",
    )


def opened(
    target: str, data: bytes, signature: Signature, *, where: str, trust: bool, threads: int
) -> Engine:
    """The engine over the bytes of a target; what is code is opened only if it is trusted."""
    if threads < 1:
        raise UsageError(f"threads must be at least 1, got {threads}")
    row = targets.get(target)
    if row.code and not trust:
        raise BundleError(
            f"the file is code: {row.code}",
            code="RW211",
            where=where,
            hint="trust=True (--trust), only for files that you made or whose origin you know",
        )
    if target == "onnx":
        return OnnxEngine(data, threads=threads)
    made = cast("Any", targets.imported(row.engines["cpu"]))
    opened: Engine = made(data, signature, where=where, threads=threads)
    return opened
