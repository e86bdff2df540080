"""The policy as WebAssembly: the bits of the engine c, and nothing that reaches out of it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.errors import BundleError, MissingExtra
from roadworthy.runtime import wasm_engine
from roadworthy.runtime.engine import Artifact
from roadworthy.spec.samples import draw
from tests.conftest import Exported

# zig compiles its libc at the first call, which takes half a minute.
pytestmark = pytest.mark.slow
LENT = "pip install 'roadworthy[wasm]', which `make test-rest` and `make test-all` do"
HARM = {
    "never ends": ("for (volatile int i = 1; i;) { }", "all fuel consumed"),
    "writes elsewhere": ("*(volatile int *)0x7ffffff0 = 1;", "out of bounds memory access"),
    "calls itself": (
        "volatile int own[64]; own[rows & 63] = rows; policy_run(places, rows + 1); own[0] += 1;",
        "wasm trap",
    ),
    "opens a file": ('places = (void *const *)fopen("/etc/passwd", "r");', "import"),
}


def needs_wasm() -> None:
    pytest.importorskip("wasmtime", reason=LENT)
    pytest.importorskip("ziglang", reason=LENT)


@pytest.mark.parametrize("name", ["lstm_pair", "half_precision", "integer_clock"])
def test_bits_are_those_of_the_engine_c(name: str, export_once: Callable[[str], Exported]) -> None:
    needs_wasm()
    folder = export_once(name).folder
    native, boxed = rw.load(folder, engine="c"), rw.load(folder, engine="c", device="wasm")
    values = draw(native.signature, np.random.default_rng(0), steps=30, rows=2)
    for step in range(30):
        now = {port: array[step] for port, array in values.items()}
        wanted, got = native.step(now), boxed.step(now)
        assert all(got[port].tobytes() == wanted[port].tobytes() for port in wanted)
    assert all(boxed.memory[m].tobytes() == native.memory[m].tobytes() for m in native.memory)


@pytest.mark.parametrize("kind", HARM)
def test_harm_is_stopped_and_this_process_lives(
    kind: str, export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_wasm()
    monkeypatch.setattr(wasm_engine, "FUEL", 10**7)
    line, said = HARM[kind]
    text = (
        "#include <stddef.h>\n#include <stdio.h>\n"
        "void policy_run(void *const *places, int rows);\nsize_t policy_work_size(void);\n"
        "size_t policy_work_size(void) { return 8; }\n"
        f"void policy_run(void *const *places, int rows) {{ {line} }}\n"
    )
    files = {"c/policy.c": text.encode(), "c/policy.h": b""}
    signature = export_once("mlp").bundle.signature
    artifact = Artifact(files=files, signature=signature, where="c/policy.c")
    inputs = {p.name: np.zeros(p.sizes({"batch": 1}), p.dtype) for p in signature.inputs}
    engine = wasm_engine.WasmEngine.open(artifact, threads=1, device="wasm")
    with pytest.raises(BundleError, match="stopped in its sandbox") as caught:
        rw.Policy(signature, engine).step(inputs)
    assert said in str(caught.value).lower() + str(caught.value.__cause__).lower()


def test_missing_package_is_named(
    export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(MissingExtra, match=r"pip install 'roadworthy\[wasm\]'"):
        rw.load(export_once("mlp").folder, engine="c", device="wasm")
