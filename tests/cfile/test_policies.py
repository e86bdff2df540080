"""Policies of the registry as C: strict compilers, sanitizers, no allocation, the same bits."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.errors import ExportError
from roadworthy.spec.bundle import TRACE
from roadworthy.spec.trace import Trace
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import interface
from roadworthy.targets.c.folder.selftest import selftest
from tests.cfile.running import STRICT, built
from tests.conftest import Exported, ExportedEnvironment
from tests.environment.environments import ENVIRONMENTS
from tests.policies import CASES
from tests.tiers import representative

ExportOnce = Callable[..., Exported]
# Memory of several layers, a window that moves, an image, half floats, branches of two rates.
SOME = ("mlp", "lstm_pair", "cnn", "half_precision", "integer_clock")
POLICIES = [name for name in CASES if name != "transformer_any_length"]


def write(bundle: rw.Bundle, folder: Path) -> Path:
    """The C of a bundle, as an export would write it."""
    own = interface(bundle.files["policy.onnx"], bundle.signature)
    trace = Trace.from_bytes(bundle.files[TRACE])
    folder.mkdir(exist_ok=True)
    for name, text in {**written(own), "selftest.c": selftest(own, trace)}.items():
        (folder / name).write_text(text, encoding="ascii")
    return folder


def passes(program: Path) -> str:
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", representative(POLICIES, SOME))
def test_policy_compiles_without_a_warning_and_passes_its_selftest(
    name: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = write(export_once(name).bundle, tmp_path / "c")
    assert " 0 values beyond" in passes(built(folder, *STRICT, "-O1"))


@pytest.mark.parametrize("style", representative(ENVIRONMENTS, ("pd_four_ticks",)))
def test_environment_keeps_its_own_clock_and_passes_its_selftest(
    style: str, export_environment_once: Callable[[str], ExportedEnvironment], tmp_path: Path
) -> None:
    folder = write(export_environment_once(style).bundle, tmp_path / "c")
    assert " 0 values beyond" in passes(built(folder, *STRICT, "-O1"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_sanitizers_find_nothing(name: str, export_once: ExportOnce, tmp_path: Path) -> None:
    folder = write(export_once(name).bundle, tmp_path / "c")
    flags = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    passes(built(folder, *STRICT, *flags))


@pytest.mark.parametrize("sizes", [(1, 8, 1), (4, 16, 2), (3, 16, 3)])
@pytest.mark.parametrize("flags", [("-O2", "-march=native"), ("-O3", "-mavx2")], ids=" ".join)
def test_small_policies_compile_without_a_warning_for_wide_vectors(
    sizes: tuple[int, int, int], flags: tuple[str, ...], tmp_path: Path
) -> None:
    if "-mavx2" in flags and platform.machine() != "x86_64":
        flags = flags[:1]
    wide, hidden, narrow = sizes
    net = nn.Sequential(nn.Linear(wide, hidden), nn.Tanh(), nn.Linear(hidden, narrow))
    bundle = rw.export(net, tmp_path / "bundle", example={"obs": torch.zeros(1, wide)})
    folder = write(bundle, tmp_path / "c")
    assert " 0 values beyond" in passes(built(folder, *STRICT, *flags))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_history_read_in_both_directions(kind: type[nn.RNNBase], tmp_path: Path) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = kind(5, 8, batch_first=True, bidirectional=True)

        def forward(self, history: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.cell(history)[0][:, -1]
            return out

    example = {"history": torch.zeros(1, 7, 5)}
    rw.export(Both(), tmp_path / "bundle", example=example, targets=("onnx", "c"))


def test_large_weights_are_read_from_alternating_ends_to_the_same_bits(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(300, 500), nn.Tanh(), nn.Linear(500, 3))
    example = {"obs": torch.zeros(1, 300)}
    bundle = rw.export(net, tmp_path / "bundle", example=example, targets=("onnx", "c"))
    assert "work->back = !work->back;" in bundle.files["c/policy.c"].decode()
    policy = rw.load(tmp_path / "bundle", engine="c")
    obs = np.linspace(-1, 1, 300, dtype=np.float32)[None]
    seen = [policy.step({"obs": obs})["actions"].tobytes() for _ in range(4)]
    assert len(set(seen)) == 1


def test_small_policy_has_no_room_for_the_end_it_reads_from(export_once: ExportOnce) -> None:
    bundle = export_once("mlp").bundle
    header = written(interface(bundle.files["policy.onnx"], bundle.signature))["policy.h"]
    assert "policy_work;" in header
    assert "int back;" not in header


BITS = """
#include "policy.h"
#include <stdio.h>
static policy_state state; static policy_inputs in; static policy_outputs out;
int main(void) {
    uint32_t seed = 1; unsigned long i, step;
    policy_init(&state);
    for (step = 0; step < 200; step++) {
        float *x = (float *)&in;
        for (i = 0; i < sizeof in / sizeof(float); i++) {
            seed = seed * 1664525u + 1013904223u;
            x[i] = (float)(int32_t)seed / 1073741824.0f;
        }
        policy_step(&state, &in, &out);
        for (i = 0; i < sizeof out; i++) { printf("%02x", ((unsigned char *)&out)[i]); }
    }
    return 0;
}
"""


@pytest.mark.parametrize("name", ["lstm_pair", "double_precision", "transformer"])
def test_reproducible_bits_depend_on_no_compiler_and_no_vector_width(
    name: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = write(export_once(name).bundle, tmp_path / "c")
    (folder / "bits.c").write_text(BITS)
    ways = [
        ("gcc", "-O3", "-march=native"),
        ("gcc", "-O0"),
        ("gcc", "-O2", "-DPOLICY_SCALAR", "-mfma"),
    ]
    if shutil.which("clang"):
        ways.append(("clang", "-O3", "-march=native"))
    seen = {
        passes(built(folder, *flags, compiler_name=compiler, main="bits.c"))
        for compiler, *flags in ways
    }
    assert len(seen) == 1
    assert len(set(next(iter(seen)))) > 8  # numbers, not zeros


HOOK = """
#include "policy.h"
#include <stdlib.h>
#include <stdio.h>
static policy_state state; static policy_inputs in; static policy_outputs out;
static long calls;
extern void *__libc_malloc(size_t);
void *malloc(size_t size) { calls++; return __libc_malloc(size); }
int main(int count, char **words) {
    long step, steps = atol(words[count - 1]), before;
    policy_init(&state);
    before = calls;
    for (step = 0; step < steps; step++) policy_step(&state, &in, &out);
    before = calls - before;
    free(malloc(8));
    printf("%ld %d\\n", before, calls > 0);
    return 0;
}
"""


def test_steps_allocate_nothing(export_once: ExportOnce, tmp_path: Path) -> None:
    folder = write(export_once("lstm").bundle, tmp_path / "c")
    (folder / "hook.c").write_text(HOOK)
    program = built(folder, "-O2", "-fno-builtin-malloc", main="hook.c")
    done = subprocess.run([program, "1000000"], capture_output=True, text=True, check=True)
    assert done.stdout == "0 1\n"


def test_header_is_cplusplus_too(export_once: ExportOnce, tmp_path: Path) -> None:
    folder = write(export_once("odd_names").bundle, tmp_path / "c")
    (folder / "main.cpp").write_text(
        '#include "policy.h"\nint main() { policy_state s; policy_init(&s); return s.tick; }\n'
    )
    subprocess.run(["gcc", "-c", "policy.c", "-o", "policy.o"], cwd=folder, check=True)
    words = [
        "g++",
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "main.cpp",
        "policy.o",
        "-o",
        "main",
    ]
    subprocess.run(words, cwd=folder, check=True)
    assert subprocess.run([folder / "main"]).returncode == 0


# Letters beyond ASCII; macros of C, of its compilers and of boards; words of C++.
AWKWARD = (
    "θ", "größe", "NULL", "INFINITY", "M_PI", "HIGH", "I", "INT64_MAX", "linux", "unix", "errno",
    "stdin", "class", "2nd", "x y", "x.y", "i", "row", "step", "got", "worst", "failed", "resets",
    "inputs", "outputs", "states", "index", "gamma", "y1", "log", "main", "remainder", "compare",
)  # fmt: skip


class Named(nn.Module):
    def forward(self, obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        total = torch.stack([obs[name] for name in AWKWARD]).sum(0)
        return {"actions": total, "got": total + 1, "exponent": total - 1}


def test_ports_of_any_name_compile_with_everything_included(tmp_path: Path) -> None:
    example = {"obs": {name: torch.zeros(1, 2) for name in AWKWARD}}
    rw.export(Named(), tmp_path / "b", example=example, targets=["onnx", "c"])
    headers = ("errno.h", "math.h", "stdio.h", "stdint.h", "complex.h")
    (tmp_path / "b/c/main.c").write_text(
        "".join(f"#include <{each}>\n" for each in headers)
        + '#define HIGH 1\n#include "policy.h"\nint main(void) { policy_state s; policy_inputs i'
        " = {{{0}}}; policy_outputs o; policy_init(&s); policy_step(&s, &i, &o);"
        " return o.actions[0][0] != 0; }\n"
    )
    words = ("gcc", "-std=gnu11", "-O1", "main.c", "policy.c", "-lm", "-o", "main")
    subprocess.run(words, cwd=tmp_path / "b/c", check=True)
    passes(tmp_path / "b/c/main")
    # As CMake compiles it: with the extensions of GNU, whose headers declare more.
    assert " 0 values beyond" in passes(built(tmp_path / "b/c", "-std=gnu99"))


def test_no_robots_and_another_language_do_not_compile(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = write(export_once("mlp").bundle, tmp_path / "c")
    for words, said in (
        (["gcc", "-DPOLICY_ROWS=0"], "POLICY_ROWS is the number of robots: 1 or more"),
        (["g++"], "compile this file as C: its header can be included from C"),
    ):
        words = [*words, "-c", "policy.c", "-o", "policy.o"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode != 0
        assert said in done.stderr


@pytest.mark.skipif(shutil.which("clang") is None, reason="apt install clang")
@pytest.mark.parametrize(
    "flags",
    [
        ("-funsafe-math-optimizations",),
        ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"),
        ("-freciprocal-math",),
    ],
    ids=" ".join,
)
def test_flags_that_clang_does_not_tell_of_change_nothing(
    flags: tuple[str, ...], export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = write(export_once("gru").bundle, tmp_path / "c")
    program = built(folder, *STRICT, "-O3", *flags, compiler_name="clang")
    assert " 0 values beyond" in passes(program)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("-ffast-math", "leave out -ffast-math"),
        ("-Ofast", "leave out -ffast-math"),
        ("-ffinite-math-only", "leave out -ffast-math"),
        pytest.param(
            "-mfpmath=387", "floats must be computed as floats",
            marks=pytest.mark.skipif(
                platform.machine() != "x86_64", reason="a unit of x86 processors"
            ),
        ),
    ],
)  # fmt: skip
def test_flags_that_make_actions_wrong_do_not_compile(
    flag: str, said: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = write(export_once("mlp").bundle, tmp_path / "c")
    words = ("gcc", "-O2", flag, "-c", "policy.c", "-o", "policy.o")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0
    assert said in done.stderr


def test_rows_side_by_side_give_what_each_gives_alone(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    """POLICY_ROWS: memory whose batch axis is not the first one included."""
    folder = write(export_once("lstm_pair").bundle, tmp_path / "c")
    text = BITS.replace("(float)(int32_t)seed", "(float)(int32_t)(i < 6 || 1 ? seed : 0)")
    same = text.replace(
        "seed = seed * 1664525u",
        "if (i % 6 == 0) seed = (uint32_t)step * 7u;\n            seed = seed * 1664525u",
    )
    (folder / "rows.c").write_text(same)
    one = passes(built(folder, "-O2", main="rows.c"))
    three = passes(built(folder, "-O2", "-DPOLICY_ROWS=3", main="rows.c"))
    size = len(one) // 200
    assert three == "".join(one[at : at + size] * 3 for at in range(0, len(one), size))


def test_rows_that_differ_between_files_do_not_link(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    """The structs would: robots beyond the first got zeros, or memory of others was written."""
    folder = write(export_once("mlp").bundle, tmp_path / "c")
    (folder / "main.c").write_text(
        '#include "policy.h"\nstatic policy_state s;\nint main(void) { policy_init(&s); }\n'
    )

    def linked(library: int, program: int) -> int:
        for rows, name in ((library, "policy"), (program, "main")):
            words = ["gcc", f"-DPOLICY_ROWS={rows}", "-c", f"{name}.c", "-o", f"{name}.o"]
            subprocess.run(words, cwd=folder, check=True)
        words = ["gcc", "policy.o", "main.o", "-lm", "-o", "main"]
        return subprocess.run(words, cwd=folder, capture_output=True).returncode

    assert [linked(1, 1), linked(4, 4)] == [0, 0]
    assert linked(1, 4) != 0
    assert linked(4, 1) != 0


def test_another_policys_library_does_not_link_and_its_header_is_refused(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    """Two static libraries of two policies: the second's calls went to the first."""
    folders = [write(export_once(name).bundle, tmp_path / name) for name in ("mlp", "cnn")]
    for folder in folders:
        part = f'#include "policy.h"\nstatic policy_state s;\nvoid {folder.name}(void);\n'
        (folder / "part.c").write_text(f"{part}void {folder.name}(void) {{ policy_init(&s); }}\n")
        for name in ("policy", "part"):
            words = ["gcc", "-c", f"{name}.c", "-o", f"{name}.o"]
            subprocess.run(words, cwd=folder, check=True)
        subprocess.run(["ar", "rc", "libpolicy.a", "policy.o"], cwd=folder, check=True)
    (tmp_path / "main.c").write_text(
        "void mlp(void); void cnn(void);\nint main(void) { mlp(); cnn(); return 0; }\n"
    )
    parts = [f"{name}/{file}" for file in ("part.o", "libpolicy.a") for name in ("mlp", "cnn")]
    words = ["gcc", "main.c", *parts, "-lm", "-o", "main"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "multiple definition" in done.stderr
    (tmp_path / "both.c").write_text('#include "mlp/policy.h"\n#include "cnn/policy.h"\n')
    words = ["gcc", "-fsyntax-only", "both.c"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "two policies in one file: roadworthy c" in done.stderr


class Looks(nn.Module):
    """Heights of a map at points between its pixels."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        points = obs.reshape(-1, 1, 2, 2)
        return nn.functional.grid_sample(obs[:, None, None], points, align_corners=False).flatten(1)


def test_operator_that_c_lacks_is_refused_with_the_users_line(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        rw.export(
            Looks(), tmp_path / "x", example={"obs": torch.zeros(1, 4)}, targets=["onnx", "c"]
        )
    said = str(caught.value)
    assert "[RW131]" in said
    assert "the C writer does not know the operator GridSample" in said
    assert "test_policies.py" in said
    assert "grid_sample" in said
    assert not (tmp_path / "x").exists()


def test_any_length_runs_in_the_engine_and_is_refused_as_a_file(export_once: ExportOnce) -> None:
    exported = export_once("transformer_any_length")
    model, folder = exported.bundle.files["policy.onnx"], exported.folder
    with pytest.raises(
        ExportError, match="the size of 'tokens' is open, and C is written for fixed"
    ):
        interface(model, exported.bundle.signature)
    usual, compiled = rw.load(folder), rw.load(folder, engine="c")
    rng = np.random.default_rng(0)
    for tokens in (3, 5):
        values = {
            "obs": rng.standard_normal((2, 6)).astype(np.float32),
            "ref_obs": rng.standard_normal((2, tokens, 5)).astype(np.float32),
            "ref_mask": rng.random((2, tokens)) < 0.3,
        }
        values["ref_mask"][:, 0] = False
        wanted, got = usual.step(values), compiled.step(values)
        assert all(np.allclose(got[name], wanted[name], atol=1e-5) for name in wanted)
