"""C for one size of an axis that the export left open."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import roadworthy as rw
from roadworthy.api.shrink import shrink
from roadworthy.api.write_c import write_c
from roadworthy.cli.app import app
from roadworthy.errors import ExportError
from roadworthy.spec.bundle import TRACE
from roadworthy.spec.trace import Trace
from roadworthy.targets.c.folder.interface import interface
from roadworthy.targets.c.folder.selftest import selftest
from tests.cfile.running import STRICT
from tests.conftest import Exported

ExportOnce = Callable[..., Exported]
ANY = "transformer_any_length"
MAIN = """\
#include "policy.h"
#include <stdio.h>
static policy_state state;
static policy_inputs in;
static policy_outputs out;
int main(void)
{
    float *obs = in.obs[0], *ref = &in.ref_obs[0][0][0];
    for (int i = 0; i < 6; i++) obs[i] = 0.1f * (float)i;
    for (int i = 0; i < POLICY_REF_OBS_SIZE; i++) ref[i] = 0.2f - 0.03f * (float)i;
    policy_init(&state);
    policy_step(&state, &in, &out);
    printf("%.9g\\n", (double)out.actions[0][0]);
    return 0;
}
"""


class Two(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.sum(1) + b.mean(1)


@pytest.mark.parametrize("tokens", [1, 7])
def test_the_file_of_one_size_does_what_the_policy_does(
    tokens: int, export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = export_once(ANY).folder
    write_c(folder, tmp_path, sizes={"tokens": tokens})
    (tmp_path / "main.c").write_text(MAIN)
    words = ["gcc", *STRICT, "-O2", "main.c", "policy.c", "-lm", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    values = {
        "obs": 0.1 * np.arange(6, dtype=np.float32)[None],
        "ref_obs": (0.2 - 0.03 * np.arange(tokens * 5, dtype=np.float32)).reshape(1, tokens, 5),
        "ref_mask": np.zeros((1, tokens), bool),
    }
    wanted = rw.load(folder).step(values)["actions"]
    assert float(said) == pytest.approx(float(wanted[0, 0]), rel=1e-5)


def test_steps_that_were_recorded_are_the_self_test_of_their_size(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    exported = export_once(ANY)
    trace = Trace.from_bytes(exported.bundle.files[TRACE])
    recorded = trace.inputs["ref_mask"].shape[2]
    model, signature = exported.bundle.files["policy.onnx"], exported.bundle.signature
    own = interface(model, signature, sizes={"tokens": recorded})
    write_c(exported.folder, tmp_path, sizes={"tokens": recorded})
    assert (tmp_path / "selftest.c").read_text() == selftest(own, trace)


def test_files_of_two_sizes_do_not_link(export_once: ExportOnce, tmp_path: Path) -> None:
    for tokens in (2, 3):
        write_c(export_once(ANY).folder, tmp_path / str(tokens), sizes={"tokens": tokens})
    (tmp_path / "main.c").write_text(MAIN)
    words = ["gcc", "-I2", "main.c", "3/policy.c", "-lm", "-o", "main"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "undefined reference to `policy_init_" in done.stderr


@pytest.mark.parametrize(
    ("sizes", "what", "hint"),
    [
        ({}, "the size of 'tokens' is open", "roadworthy c FOLDER -o OUT --size tokens=8"),
        ({"token": 4}, "leaves no size open that is called 'token'", "did you mean 'tokens'"),
        ({"tokens": 0}, "a size is a whole number from 1 on, got tokens=0", ""),
        ({"tokens": "8"}, "a size is a whole number from 1 on, got tokens='8'", ""),
        ({"tokens": True}, "a size is a whole number from 1 on, got tokens=True", ""),
        ({1: 8}, "leaves no size open that is called 1", "known: 'tokens'"),
        (["tokens=8"], "expected a dict, got a list", "{'agents': 8}"),
        ({"tokens": 4, "batch": 4}, "rows are not chosen", "-DPOLICY_ROWS=4"),
    ],
)
def test_sizes_that_are_wrong_are_refused(
    sizes: Any, what: str, hint: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    with pytest.raises((rw.UsageError, ExportError)) as caught:
        write_c(export_once(ANY).folder, tmp_path / "out", sizes=sizes)
    assert what in str(caught.value)
    assert hint in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_size_that_nobody_left_open_is_refused(export_once: ExportOnce) -> None:
    exported = export_once("mlp")
    with pytest.raises(rw.UsageError, match="no size open that is called 'tokens'"):
        interface(
            exported.bundle.files["policy.onnx"], exported.bundle.signature, sizes={"tokens": 3}
        )


def test_the_command_line_takes_sizes(export_once: ExportOnce, tmp_path: Path) -> None:
    folder, run = str(export_once(ANY).folder), CliRunner().invoke
    done = run(app, ["c", folder, "-o", str(tmp_path / "out"), "--size", "tokens=5"])
    assert done.exit_code == 0, done.output
    assert "#define POLICY_REF_OBS_SIZE 25" in (tmp_path / "out" / "policy.h").read_text()
    rams = []
    for size in ("tokens=2", "tokens=9"):
        done = run(app, ["inspect", folder, "--c", "--size", size, "--json"])
        assert done.exit_code == 0, done.output
        rams.append(json.loads(done.output)["boards"][-1]["ram"])
    assert rams[0] < rams[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("c", "-o", "OUT", "--size", "tokens"), "write NAME=NUMBER"),
        (("c", "-o", "OUT", "--size", "tokens=many"), "write NAME=NUMBER"),
        (("c", "-o", "OUT", "--size", "tokens=2", "--size", "tokens=3"), "tokens is said twice"),
        (("inspect", "--c", "--graph"), "--c shows the policy as C alone"),
        (("inspect", "--size", "tokens=2"), "--size are asked of the policy as C"),
    ],
)
def test_the_command_line_refuses_what_it_cannot_read(
    words: tuple[str, ...], said: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    line = [words[0], str(export_once(ANY).folder), *words[1:]]
    done = CliRunner().invoke(app, [str(out) if word == "OUT" else word for word in line])
    assert isinstance(done.exception, rw.UsageError)
    assert said in str(done.exception)
    assert not out.exists()


def test_a_hint_of_two_sizes_leads_on_and_large_ones_are_few_steps(tmp_path: Path) -> None:
    example = {"a": torch.zeros(1, 3, 4), "b": torch.zeros(1, 5, 4)}
    dynamic = {"a": {1: "n"}, "b": {1: "m"}}
    rw.export(Two(), tmp_path / "b", example=example, dynamic=dynamic)
    with pytest.raises(ExportError, match="roadworthy c FOLDER -o OUT --size n=3 --size m=8"):
        write_c(tmp_path / "b", tmp_path / "c", sizes={"n": 3})
    write_c(tmp_path / "b", tmp_path / "c", sizes={"n": 3, "m": 40_000})
    assert (tmp_path / "c" / "selftest.c").stat().st_size < 20_000_000


def test_a_size_that_no_self_test_holds_is_refused_before_it_is_drawn(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=r"RW131.*a value of \d+ elements"):
        write_c(export_once(ANY).folder, tmp_path / "c", sizes={"tokens": 2_000_000})
    example = {"a": torch.zeros(1, 3, 4), "b": torch.zeros(1, 5, 4)}
    rw.export(Two(), tmp_path / "b", example=example, dynamic={"a": {1: "n"}})
    with pytest.raises(rw.UsageError, match=r"of n=600000 would hold \d+ numbers"):
        write_c(tmp_path / "b", tmp_path / "c", sizes={"n": 600_000})
    assert not (tmp_path / "c").exists()


def test_files_of_smaller_weights_are_told_from_the_others(export_once: ExportOnce) -> None:
    """What is linked with another's header would take its state for its own."""
    bundle = export_once("mlp").bundle
    kinds = [
        interface(bundle.files["policy.onnx"], bundle.signature, weights=weights).init
        for weights in ("float32", "float16", "int8")
    ]
    assert len(set(kinds)) == 3


def test_a_policy_of_open_size_is_not_shrunk(export_once: ExportOnce) -> None:
    with pytest.raises(rw.UsageError, match=r"export the policy .* without dynamic="):
        shrink(export_once(ANY).folder, env="CartPole-v1")


@pytest.mark.parametrize(
    "words", [(None, "out"), ("FOLDER", None), ("FOLDER", ""), (3, "out")], ids=str
)
def test_places_that_are_none_are_named(words: tuple[Any, Any], export_once: ExportOnce) -> None:
    path, folder = (export_once(ANY).folder if word == "FOLDER" else word for word in words)
    with pytest.raises(rw.UsageError, match="expected a folder, got"):
        write_c(path, folder, sizes={"tokens": 2})
