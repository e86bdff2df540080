"""The form of a manifest: what must be there, and of which type, before anything is made of it.

docs/manifest.schema.json says it in full for other languages; this is what Roadworthy reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roadworthy.errors import BundleError, Finding
from roadworthy.spec.json_file import HINT, Form, numbers, refuse_malformed, understood
from roadworthy.spec.port import shape_of
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature, broadcasts
from roadworthy.spec.targets import TARGETS

_PORT = {
    "name": str, "dtype": str, "shape": [(int, str)], "description?": str, "unit?": str,
    "elements?": [str], "low?": numbers, "high?": numbers, "noise?": str,
}  # fmt: skip
_MEMORY = {
    "name": str, "dtype": str, "shape": [(int, str)], "initial": numbers, "input": str,
    "output": str,
}  # fmt: skip
_ACTION = {
    "output": str, "kind": str, "low?": numbers, "high?": numbers, "sizes?": [int],
    "table?": [(str, int)],
}  # fmt: skip
SIGNATURE: Form = {
    "inputs": [_PORT], "outputs": [_PORT], "memory": [_MEMORY], "action": (None, _ACTION),
    "period_s": (None, float), "decimation": int, "clock?": (None, str),
    "frame_skip?": int, "robot?": {"joints": [str]},
}  # fmt: skip
_SAMPLING = {
    "thresholds": [float], "horizon": int, "typical": {"*": {"mean": numbers, "spread": numbers}},
    "left_out": {"*": {"*": str}},
}  # fmt: skip
_FINDING = {"code": str, "what": str, "where": str, "hint": str, "severity": str}
_FORM: Form = {
    "signature": SIGNATURE, "sampling?": _SAMPLING, "targets": {"*": [str]}, "waivers?": [str],
    "fixes?": [_FINDING], "translations?": {"*": str}, "decompositions?": {"*": str},
    "provenance?": {"*": str}, "opset?": int, "ir_version?": int,
    "recipe": {
        "ignore?": [str], "attributes?": {"*": str}, "inputs?": {}, "memory?": {},
        "normalizers?": {"*": (str, {"kind": str})}, "action?": [{"kind": str}],
        "batch?": (None, int), "outputs?": (None, [(None, str)]), "environment?": str,
        "constants?": ([str], {}), "handed_over?": [str], "rewritten?": str,
        "method?": (str, {"function": str}), "first_input?": [str], "grouped?": [str],
        "returned?": {"*": (int, str, [(int, str)])},
    },
}  # fmt: skip


def refuse_malformed_manifest(manifest: Any, *, where: str) -> None:
    """An error with everything in the manifest that is not as it must be."""
    refuse_malformed(manifest, _FORM, where=where)
    with understood(where):
        signature = Signature.from_json(manifest["signature"])
        if manifest.get("sampling"):
            _refuse_unfit(Sampling.from_json(manifest["sampling"]), signature)


def refuse_other_files(targets: Mapping[str, Sequence[str]], *, where: str) -> None:
    """An error for every target whose files are not those that its row of the table names.

    A target that the table lacks has no engine, and nothing is made of its files.
    """
    findings = [
        Finding(
            code="RW205",
            where=f"{where}: targets.{name}",
            what=f"expected {', '.join(TARGETS[name].files)}, got {', '.join(files)[:200]}",
            hint=HINT,
        )
        for name, files in targets.items()
        if name in TARGETS and tuple(files) != TARGETS[name].files
    ]
    if findings:
        raise BundleError(findings=findings)


def _refuse_unfit(sampling: Sampling, signature: Signature) -> None:
    """An error if the statistics of a port are not those of its elements."""
    for port in signature.inputs:
        row = tuple(dim for dim in port.shape if isinstance(dim, int))
        for side in ("mean", "spread") if port.name in sampling.typical else ():
            shape = shape_of(getattr(sampling.typical[port.name], side))
            if not broadcasts(shape, row):
                raise ValueError(f"the {side} of {port.name} has shape {shape}, a row has {row}")


def read_signature(data: Any, *, where: str) -> Signature:
    """The signature that a file carries, or an error that says what in it is wrong."""
    refuse_malformed(data, SIGNATURE, where=where)
    with understood(where):
        return Signature.from_json(data)
