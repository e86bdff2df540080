"""Which engine runs which target, and what must be said before a file that is code is opened."""

from __future__ import annotations

from roadworthy.errors import BundleError, UsageError, did_you_mean
from roadworthy.runtime.engine import Engine, OnnxEngine
from roadworthy.spec.signature import Signature

# Why opening a file of a target runs whatever its author put into it.
_CODE = {
    "torch_export": "reading it may unpickle objects of its author's choice",
    "aoti": "it holds a compiled library that is loaded into this process",
}
NAMES = ("onnx", *_CODE)
DEFAULT = "onnx"


def needs_trust(target: str) -> bool:
    return target in _CODE


def refuse_unknown(engine: str) -> None:
    if engine not in NAMES:
        raise UsageError(f"there is no engine {engine!r}", hint=did_you_mean(engine, NAMES))


def chosen(engine: str | None, targets: tuple[str, ...], *, where: str) -> str:
    """The engine that was asked for, or the default, if the policy is there in that form."""
    if engine is not None:
        refuse_unknown(engine)
    wanted = engine or DEFAULT
    if wanted in targets:
        return wanted
    other = targets[0]
    instead = f"engine={other!r}" + (", trust=True" if needs_trust(other) else "")
    raise BundleError(
        f"there is no {wanted} target here, only {', '.join(targets)}",
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
    if target in _CODE and not trust:
        raise BundleError(
            f"the file is code: {_CODE[target]}",
            code="RW211",
            where=where,
            hint="trust=True (--trust), only for files that you made or whose origin you know",
        )
    if target == "onnx":
        return OnnxEngine(data, threads=threads)
    from roadworthy.runtime.torch_engines import AotiEngine, TorchExportEngine

    made = TorchExportEngine if target == "torch_export" else AotiEngine
    return made(data, signature, where=where, threads=threads)
