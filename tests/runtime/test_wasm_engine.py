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
from roadworthy.runtime.trust import judged_files
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


@pytest.mark.parametrize(
    ("name", "known"),
    [("lstm_pair", "50."), ("half_precision", "50."), ("integer_clock", "50."), ("lstm_pair", "-")],
)
def test_bits_are_those_of_the_engine_c(
    name: str, known: str, export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_wasm()
    monkeypatch.setattr(wasm_engine, "KNOWN_INSIDE", known)  # another version: its public names
    folder = export_once(name).folder
    native, boxed = rw.load(folder, engine="c"), rw.load(folder, engine="wasm")
    values = draw(native.signature, np.random.default_rng(0), steps=30, rows=2)
    for step in range(30):
        now = {port: array[step] for port, array in values.items()}
        wanted, got = native.step(now), boxed.step(now)
        assert all(got[port].tobytes() == wanted[port].tobytes() for port in wanted)
    assert all(boxed.memory[m].tobytes() == native.memory[m].tobytes() for m in native.memory)


@pytest.mark.parametrize(
    ("kind", "known"), [*((each, "50.") for each in HARM), ("never ends", "-")]
)
def test_harm_is_stopped_and_this_process_lives(
    kind: str, known: str, export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_wasm()
    monkeypatch.setattr(wasm_engine, "FUEL", 10**7)
    monkeypatch.setattr(wasm_engine, "KNOWN_INSIDE", known)
    line, said = HARM[kind]
    policy, inputs = stranger(export_once, "void policy_run(void *const *places, int rows)", line)
    for _ in range(2):  # the second time too: nothing of the first is left over
        with pytest.raises(BundleError, match="stopped in its sandbox") as caught:
            policy.step(inputs)
        assert said in str(caught.value).lower() + str(caught.value.__cause__).lower()


def test_function_of_another_type_is_not_called(export_once: Callable[[str], Exported]) -> None:
    """Its arguments are handed over unchecked: a type that is not ours is refused before."""
    needs_wasm()
    head = "double policy_run(double places, void *rows)"
    policy, inputs = stranger(export_once, head, "return places + (rows != 0);")
    with pytest.raises(BundleError, match="policy_run is of another type"):
        policy.step(inputs)


def stranger(
    export_once: Callable[[str], Exported], head: str, line: str
) -> tuple[rw.Policy, dict[str, np.ndarray]]:
    """A policy whose C somebody else wrote, and inputs for it."""
    text = (
        f"#include <stddef.h>\n#include <stdio.h>\n{head};\nsize_t policy_work_size(void);\n"
        f"size_t policy_work_size(void) {{ return 8; }}\n{head} {{ {line} }}\n"
    )
    texts = {"c/policy.c": text.encode(), "c/policy.h": b""}
    files = judged_files("c", texts, trust=True, where="c/policy.c")
    signature = export_once("mlp").bundle.signature
    artifact = Artifact(files=files, signature=signature, where="c/policy.c")
    engine = wasm_engine.WasmEngine.open(artifact, threads=1, device="wasm")
    inputs = {p.name: np.zeros(p.sizes({"batch": 1}), p.dtype) for p in signature.inputs}
    return rw.Policy(signature, engine), inputs


def test_missing_package_is_named(
    export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(MissingExtra, match=r"pip install 'roadworthy\[wasm\]'"):
        rw.load(export_once("mlp").folder, engine="c", device="wasm")
