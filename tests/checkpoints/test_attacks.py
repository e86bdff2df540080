"""Hostile and broken files: each is met with its message, runs nothing, and leaves nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.frameworks.files.pickles import read_pickle
from roadworthy.spec.yaml_file import BadYaml, plain_yaml
from tests.checkpoints.attacks import ATTACKS, FILES, MARK, Payload, statistics, zipped

NONE = {"vecnormalize": "none"}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_file_is_refused_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    make, message = ATTACKS[name]
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "model.zip"
    path.write_bytes(make(tmp_path))
    with pytest.raises(rw.UsageError) as caught:
        rw.export(path, tmp_path / "out", assume=NONE if "payload" not in name else None)
    assert message in str(caught.value)
    assert caught.value.findings[0].hint
    assert [each.name for each in tmp_path.rglob("*")] == ["in", "model.zip"]


def test_a_pickle_of_statistics_can_call_nothing(tmp_path: Path) -> None:
    import pickle

    with pytest.raises(rw.UsageError, match=r"wants to call posix\.system"):
        read_pickle(pickle.dumps(Payload(tmp_path)), where="vecnormalize.pkl")
    # Inside of a field as well, and as a class that is asked to make itself.
    for hidden in ({"mean": Payload(tmp_path)}, {"mean": np.array([Payload(tmp_path)])}):
        (tmp_path / "vecnormalize.pkl").write_bytes(statistics(**hidden))
        with pytest.raises(rw.UsageError):
            rw.to_source(FILES / "ppo_cartpole.zip", vecnormalize=tmp_path / "vecnormalize.pkl")
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean": np.zeros(3), "var": np.ones(3)}, "the statistics have the shape (3,)"),
        ({"mean": np.zeros(4, int)}, "its statistics are int64, expected floating-point numbers"),
        ({"mean": np.full(4, np.nan)}, "the statistics are NaN or infinite"),
        ({"var": np.full(4, -1.0)}, "divide by zero"),
    ],
)
def test_statistics_that_cannot_be_meant_are_refused(
    tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    (tmp_path / "vecnormalize.pkl").write_bytes(statistics(**fields))
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(FILES / "ppo_cartpole.zip", vecnormalize=tmp_path / "vecnormalize.pkl")
    assert message in str(caught.value)


def test_yaml_knows_tuples_and_refuses_every_other_tag() -> None:
    assert plain_yaml("a: !!python/tuple [1, [2]]") == {"a": (1, [2])}
    assert plain_yaml("!!python/object/apply:collections.OrderedDict\n- - - k\n    - 3\n") == {
        "k": 3
    }
    for tag in (
        "object/apply:os.system ['true']",
        "name:os.system ''",
        "object:a.B {}",
        "module:os ''",
    ):
        with pytest.raises(BadYaml, match=r"line 1: the tag .* would run Python"):
            plain_yaml(f"a: !!python/{tag}")
    with pytest.raises(BadYaml, match="the tag !own"):
        plain_yaml("a: !own 3")


def test_yaml_that_means_more_than_it_says_is_refused() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(BadYaml, match="its aliases stand for more than"):
        plain_yaml("\n".join(lines))
    with pytest.raises(BadYaml, match="an alias stands for what it is in"):
        plain_yaml("a: &a [*a]")
    with pytest.raises(BadYaml, match="nested too deeply"):
        plain_yaml("[" * 5000 + "]" * 5000)


def test_settings_beside_a_file_that_would_run_code_are_refused(tmp_path: Path) -> None:
    shutil.copy(FILES / "ppo_cartpole.zip", tmp_path / "model.zip")
    (tmp_path / "config.yml").write_text("normalize: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(rw.UsageError, match="would run Python") as caught:
        rw.to_source(tmp_path / "model.zip")
    assert caught.value.findings[0].code == "RW183"


def test_a_tired_person_s_mistakes_are_answered(tmp_path: Path) -> None:
    model = FILES / "ppo_cartpole.zip"
    (tmp_path / "vecnormalize.pkl").write_bytes(statistics())
    (tmp_path / "policy.pth").write_bytes(zipped({"readme.txt": b"hello"}))
    mistakes = [
        (tmp_path / "vecnormalize.pkl", {}, "not a policy"),
        (tmp_path / "policy.pth", {}, "it holds the files readme.txt"),
        (model, {"env": "CartPole-v9"}, "Gymnasium cannot make 'CartPole-v9'"),
        (model, {"env": "Pendulum-v1"}, "its action space is Box (1,) float32 in [-2, 2]"),
        (model, {"assume": NONE, "frame_stack": 3}, "4 elements cannot be 3 observations"),
        (model, {"assume": NONE, "frame_stack": 1}, "a stack of 1 observations is none"),
        (model, {"assume": NONE, "outputs": ["mean"]}, "has no output 'mean'"),
        (model, {"assume": {"vecnorm": "none"}}, "did you mean 'vecnormalize'?"),
        (model, {"vecnormalize": tmp_path / "no.pkl"}, "no.pkl does not exist"),
        (model, {"asume": NONE}, "did you mean 'assume'?"),
    ]
    for path, keywords, message in mistakes:
        with pytest.raises(rw.UsageError) as caught:
            rw.to_source(path, **keywords)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"<!DOCTYPE html><html>404</html>", "this is a web page, not a checkpoint"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
        ({"state": {}, "param_groups": []}, "this is the state of an optimizer, not a policy"),
        (torch.nn.Linear(3, 2), "it wants to build torch.nn.modules.linear.Linear"),
    ],
)
def test_what_stands_in_the_place_of_a_checkpoint_is_named(
    content: object, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(path)
    assert message in str(caught.value)


def test_a_folder_is_answered_with_the_checkpoints_in_it(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError, match="this is a folder, with no checkpoint in it"):
        rw.to_source(tmp_path)
    (tmp_path / "nn").mkdir()
    shutil.copy(FILES / "ppo_cartpole.zip", tmp_path / "nn" / "best.zip")
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(tmp_path)
    assert "with the checkpoints nn/best.zip" in str(caught.value)
    assert caught.value.findings[0].hint == f"name one: {tmp_path / 'nn' / 'best.zip'}"


WATCHED = """
import sys
import torch, numpy, yaml, zipfile, json, roadworthy as rw
import roadworthy.frameworks.sb3.file, roadworthy.frameworks.checkpoint
import roadworthy.frameworks.bare.file, roadworthy.frameworks.cleanrl.file
import torch._weights_only_unpickler
rw.to_source(sys.argv[1], assume={"vecnormalize": "none"})  # what is imported once, is imported
before, events = set(sys.modules), []
def watch(event, args):
    if event in ("os.system", "subprocess.Popen", "exec", "pickle.find_class", "socket.connect"):
        events.append((event, str(args)[:200]))
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        events.append((event, str(args)[:200]))
sys.addaudithook(watch)
for path in sys.argv[1:]:
    try:
        rw.to_source(path, assume={"vecnormalize": "none"} if "good" in path else None)
    except rw.UsageError:
        pass
    else:
        assert "good" in path, path
print(sorted(set(sys.modules) - before))
print(events)
"""


def test_no_global_of_a_file_is_ever_imported(tmp_path: Path) -> None:
    """By audit hook: reading good and hostile files imports, runs and writes nothing."""
    good = tmp_path / "good.zip"
    good.write_bytes((FILES / "ppo_cartpole.zip").read_bytes())
    paths = [good]
    for place, (make, _) in enumerate(ATTACKS.values()):
        paths.append(tmp_path / f"{place}.zip")
        paths[-1].write_bytes(make(tmp_path))
    run = subprocess.run(
        [sys.executable, "-c", WATCHED, *map(str, paths)],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["[]", "[]"]
    assert not (tmp_path / MARK).exists()
