"""A process that is killed anywhere in an export leaves the old bundle or the new one, whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import roadworthy as rw
from roadworthy.spec import replacing
from roadworthy.spec.bundle import Bundle
from tests import hostile

# One process that forks a writer for every place at which it can be killed: just before each
# change that Python makes to the file system, in the order in which they happen.
KILLING = """
import json, os, shutil, signal, sys
from pathlib import Path
from roadworthy.spec import replacing
from roadworthy.spec.sealing import new_bundle

root, mode, new = Path(sys.argv[1]), sys.argv[2], json.load(open(sys.argv[3]))
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree")
left = [0]

def watch(event, arguments):
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if left[0] and (writes or event in CHANGES or event == "roadworthy.exchange"):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
real = replacing.exchange

def exchange(one, other):
    sys.audit("roadworthy.exchange", str(one))
    done = mode == "exchange" and real(one, other)
    sys.audit("roadworthy.exchange", str(one))
    return done

replacing.exchange = exchange

def write(folder):
    with new_bundle(folder) as partial:
        for name, text in new.items():
            (partial / name).write_bytes(bytes.fromhex(text))

for place in range(1, 200):
    folder = root / str(place) / "walker"
    shutil.copytree(root / "old", folder)
    child = os.fork()
    if not child:
        left[0] = place
        write(folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        print(place)
        break
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.parent.iterdir() if path != folder]


@pytest.mark.parametrize("mode", ["exchange", "two renames"])
def test_kill_at_any_place_leaves_one_whole_bundle(tmp_path: Path, mode: str) -> None:
    old = contents(hostile.sealed(tmp_path / "old"))
    changed = {**hostile.files(), "policy.onnx": hostile.smooth(signature=None)}
    new = contents(hostile.sealed(tmp_path / "new", changed))
    written = tmp_path / "files.json"
    written.write_text(json.dumps({name: data.hex() for name, data in changed.items()}))
    done = subprocess.run(
        [sys.executable, "-c", KILLING, str(tmp_path), mode, str(written)],
        capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    places = int(done.stdout)
    assert places > 15
    seen, gone, left = set(), 0, 0
    for place in range(1, places):
        folder = tmp_path / str(place) / "walker"
        gone += not folder.exists()
        left += bool(leftovers(folder))
        bundle = Bundle.open(folder)  # which brings back what was on its way
        found = contents(folder)
        assert found in (old, new)
        assert dict(bundle.files) == {k: v for k, v in found.items() if k != "SHA256SUMS"}
        seen.add(found == new)
        hostile.sealed(folder)
        assert leftovers(folder) == []
        assert contents(folder) == old
    assert seen == {True, False}
    assert left > 10
    assert gone == 0 if mode == "exchange" else gone >= 1


def test_exchange_is_there_on_linux(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    assert replacing.exchange(one, other) is sys.platform.startswith("linux")
    if sys.platform.startswith("linux"):
        assert [each.name for each in one.iterdir()] == ["other"]
        with pytest.raises(FileNotFoundError):
            replacing.exchange(one, tmp_path / "nobody")


def test_export_that_is_still_at_work_is_left_alone(tmp_path: Path) -> None:
    with replacing.partial_folder(tmp_path / "walker") as busy:
        (busy / "file").touch()
        hostile.sealed(tmp_path / "walker")
        assert (busy / "file").exists()
    assert leftovers(tmp_path / "walker") == []


def test_folder_of_another_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".walker2.partial-abc").mkdir()
    (tmp_path / ".walker.partial-abc").mkdir()
    hostile.sealed(tmp_path / "walker")
    assert leftovers(tmp_path / "walker") == [".walker2.partial-abc"]


@pytest.mark.parametrize("use", [rw.load, rw.verify, Bundle.open], ids=lambda f: f.__name__)
def test_bundle_that_was_on_its_way_comes_back_at_the_next_load(
    tmp_path: Path, use: object
) -> None:
    folder = hostile.sealed(tmp_path / "walker")
    folder.rename(tmp_path / ".walker.retired-abc")
    assert callable(use)
    use(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["walker"]


# A file may hold no more than 1000 bytes, as if the disk were full.
FULL = """
import resource, sys
from pathlib import Path
import roadworthy as rw
from roadworthy.spec.sealing import new_bundle

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    with new_bundle(Path(sys.argv[1])) as partial:
        (partial / "policy.onnx").write_bytes(bytes(5000))
except rw.BundleError as error:
    print(error)
"""


def test_full_disk_is_a_finding_and_leaves_the_older_bundle_alone(tmp_path: Path) -> None:
    folder = hostile.sealed(tmp_path / "walker")
    before = contents(folder)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder)],
        capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"[RW200] {folder}: the bundle cannot be written: File too large",
        "  → free some space and export again; an older bundle in this place is as it was",
    ], done.stderr
    assert contents(folder) == before
    assert leftovers(folder) == []


def test_folder_below_a_file_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    with pytest.raises(
        rw.BundleError, match=r"the bundle cannot be written: (Not a directory|File exists)"
    ):
        hostile.sealed(tmp_path / "file" / "walker")


def test_error_of_the_users_own_code_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), hostile.new_bundle(tmp_path / "walker"):
        Path("/nobody/there").read_bytes()
