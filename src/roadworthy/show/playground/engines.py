"""What runs the policy in the page: its own WebAssembly where it can be compiled here, else
onnxruntime-web, which runs every policy and is a hundred times as large."""

from __future__ import annotations

import base64
import gzip
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roadworthy.errors import MissingExtra, UsageError, did_you_mean
from roadworthy.runtime.c_engine import PolicyText
from roadworthy.runtime.compiler import CannotCompile, wasm_module
from roadworthy.runtime.engine import Artifact
from roadworthy.show.playground.contents import assignment, encoded
from roadworthy.show.playground.vendor_files import LICENSE, NAMES, licence, unpacked
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.onnx_graph import Declared, read
from roadworthy.spec.port import BATCH
from roadworthy.targets.c.lowering import Unsupported

ENGINES = ("wasm", "onnx")
_INSTALL = "pip install 'roadworthy[wasm]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEngine:
    """An engine of the page for one policy.

    name    as `Roadworthy.engines` of the page knows it
    why     why it was taken, as a phrase
    runs    what it is, for the foot of the page
    data    what it needs of the bundle, for bundle.js
    before  scripts that are loaded before all others, by name: text
    beside  other files of the site, by name: text
    """

    name: str
    why: str
    runs: str
    data: Mapping[str, Any] = field(repr=False)
    before: Mapping[str, str] = field(default_factory=dict, repr=False)
    beside: Mapping[str, str] = field(default_factory=dict, repr=False)


# What other engines may have left in a site that is written over.
FILES = ("runtime.js", NAMES[0], LICENSE)


def page_engine(
    bundle: Bundle,
    wanted: str | None,
    *,
    dims: Mapping[str, int],
    canary: bool = True,
    say: Callable[[str], None] = lambda stage: None,
) -> PageEngine:
    """The engine that was asked for, or the smallest that can run the policy."""
    if wanted is not None and wanted not in ENGINES:
        raise UsageError(
            f"there is no engine {wanted!r} in a page", where="engine",
            hint=did_you_mean(wanted, ENGINES),
        )  # fmt: skip
    if wanted == "onnx":
        return _onnx(bundle, "as asked for")
    if importlib.util.find_spec("ziglang") is None:
        if wanted == "wasm":
            raise MissingExtra(
                "the policy is compiled to WebAssembly by zig, which is not installed",
                where="engine", hint=f"{_INSTALL}, or leave the engine out: onnx needs no compiler",
            )  # fmt: skip
        return _onnx(bundle, f"no compiler is here; {_INSTALL} makes the site smaller")
    try:
        why = "as asked for" if wanted else "the policy compiles to it, and nothing is smaller"
        return _wasm(bundle, why, dims, canary, say)
    except (Unsupported, CannotCompile) as error:
        if wanted == "wasm":
            raise
        return _onnx(bundle, f"the policy does not compile here: {error.findings[0].what}")


def _wasm(
    bundle: Bundle,
    why: str,
    dims: Mapping[str, int],
    canary: bool,
    say: Callable[[str], None],
) -> PageEngine:
    model = bundle.files[POLICY]
    artifact = Artifact(
        files={POLICY: model}, signature=bundle.signature, where=POLICY, canary=canary
    )
    written = PolicyText(artifact).written(dims)
    say("compiling to WebAssembly (the first time takes a minute)")
    graph = read(model)
    compiled = {
        "module": base64.b64encode(wasm_module(written.text)).decode(),
        "constants": [encoded(each) for each in written.constants],
        "inputs": [_port(each, dims) for each in graph.inputs],
        "outputs": [_port(each, dims) for each in graph.outputs],
    }
    runs = "compiled from it to WebAssembly, one thread"
    return PageEngine(name="wasm", why=why, runs=runs, data={"compiled": compiled})


def _port(port: Declared, dims: Mapping[str, int]) -> dict[str, Any]:
    """A port for wasm.js: sizes but for the batch are known."""
    shape = [each if each == BATCH or isinstance(each, int) else dims[each] for each in port.shape]
    return {"name": port.name, "dtype": port.dtype, "shape": shape}


def _onnx(bundle: Bundle, why: str) -> PageEngine:
    first, *others = NAMES
    script, wasm = (unpacked(name) for name in others)
    # Inside a script: a page that was opened from disk may not fetch files.
    packed = gzip.compress(wasm, compresslevel=4, mtime=0)
    runtime = {"mjs": script.decode(), "wasm": base64.b64encode(packed).decode()}
    return PageEngine(
        name="onnx",
        why=why,
        runs="by onnxruntime-web, one thread",
        data={"model": base64.b64encode(bundle.files[POLICY]).decode()},
        before={"runtime.js": assignment("runtime", runtime), first: unpacked(first).decode()},
        beside={LICENSE: licence()},
    )
