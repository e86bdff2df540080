"""`export` and `verify` of many policies: their options, and the task that each of them is."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

import roadworthy
from roadworthy.cli.options import ManyAtOnce
from roadworthy.deploy.many import naming, records
from roadworthy.deploy.many.task import Task
from roadworthy.errors import UsageError
from roadworthy.spec.bundle import MANIFEST, SUMS

# These say how the work is done, and nothing about its result.
_HOW = ("sources", "folders", "folder", "jobs", "ray", "again", "as_json")
_VERSIONS = ("torch", "onnx", "onnxruntime", "numpy", "gymnasium")
_ADDRESS = re.compile(r"auto|local|ray://.+|[\w.-]+:\d+")


def is_wanted(sources: Sequence[str], at_once: ManyAtOnce) -> bool:
    """Whether more than one policy is meant, or it was said how many are done at once."""
    said = (at_once.jobs, at_once.ray)
    if None not in said:
        raise UsageError(
            "--jobs and --ray are two ways to do the same",
            hint="--jobs for processes of this machine, --ray for a cluster",
        )
    patterns = [each for each in sources if any(mark in each for mark in "*?[")]
    return len(sources) > 1 or bool(patterns) or said != (None, None)


def with_ray_address(words: Sequence[str]) -> list[str]:
    """The words, with `auto` behind a `--ray` that no address follows."""
    found: list[str] = []
    for at, word in enumerate(words):
        found.append(word)
        after = words[at + 1] if at + 1 < len(words) else ""
        if word == "--ray" and not _ADDRESS.fullmatch(after):
            found.append("auto")
    return found


def option_words(context: typer.Context) -> list[str]:
    """The options of a command as words, but for those that say how many are done at once."""
    words: list[str] = []
    for option in context.command.params:
        value: Any = context.params.get(option.name or "")
        if option.param_type_name != "option" or option.name in _HOW:
            continue
        if value == option.default or value is None or value == ():
            continue
        if isinstance(value, bool):
            words.append(option.opts[0] if value else option.secondary_opts[0])
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            words += [option.opts[0], str(each)]
    return words


def export_tasks(context: typer.Context, sources: Sequence[str], out_folder: Path) -> list[Task]:
    """One export for each source, each to a folder of its own in `out_folder`."""
    options = option_words(context)
    found = naming.expanded(sources)
    return [
        _task("export", source, (source, "-o", str(out_folder / name)), options,
              result=out_folder / name, around=naming.neighbours_of(source))
        for source, name in zip(found, naming.folder_names(found), strict=True)
    ]  # fmt: skip


def verify_tasks(context: typer.Context, folders: Sequence[str]) -> list[Task]:
    """One verification for each bundle, against what it was exported from if that is known."""
    options = option_words(context)
    known = {word for option in context.command.params for word in option.opts}
    tasks = []
    for folder in naming.expanded(folders):
        if is_emitted(Path(folder)):  # beside the bundles, where a pattern meets them
            continue
        added = [] if "--against" in options else _original(Path(folder), known)
        tasks.append(_task("verify", folder, (folder, *added), options, bundle=Path(folder)))
    if not tasks:
        raise UsageError(
            f"no bundle among {', '.join(folders)}", hint="roadworthy export … -o FOLDER makes one"
        )
    return tasks


def is_emitted(folder: Path) -> bool:
    """Whether a folder holds the files of another runtime: its sums know no manifest."""
    path = folder / SUMS
    return path.is_file() and MANIFEST not in path.read_text(errors="replace")


def _original(bundle: Path, known: set[str]) -> list[str]:
    """The words that name the source of a bundle, as its export wrote them down."""
    said = records.read(records.record_of(bundle, "export"))
    if said.get("bundle") != records.bundle_sum(bundle) or "source" not in said:
        return []
    place, colon, name = _split(said["source"])
    path = Path(os.path.normpath(bundle.parent / said["from"] / place))
    words = ["--against", f"{path}{colon}{name}" if path.exists() else said["source"]]
    options = said.get("options", [])
    for at, word in enumerate(options):
        if word in ("--exploration", "--set") and word in known:
            words += options[at : at + 2]
    return words


def remembered(task: Task, options: Sequence[str]) -> dict[str, Any]:
    """What the record of an export says, so that it can be verified against its source."""
    assert task.result is not None
    away = os.path.relpath(task.cwd, Path(task.result).parent)
    return {"source": task.name, "from": away, "options": list(options)}


def _split(source: str) -> tuple[str, str, str]:
    """File, colon and name of `file.py:name`; a file alone elsewhere."""
    return source.rpartition(":") if ".py:" in source else (source, "", "")


def _task(
    verb: str,
    name: str,
    own: Sequence[str],
    options: Sequence[str],
    *,
    result: Path | None = None,
    bundle: Path | None = None,
    around: Sequence[str] = (),
) -> Task:
    place = result or bundle
    assert place is not None
    words = (verb, *own, *options)
    decides = {
        "words": [word for word in words if word != str(result)],
        # Of options files alone: a folder that happens to have the name of a value is none of it.
        "content": [naming.content_of(word) for word in own if word != str(result)]
        + [naming.content_of(word) for word in options if not Path(word).is_dir()],
        "around": list(around),
        "versions": {"roadworthy": roadworthy.__version__, **_versions()},
    }
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return Task(
        name=name,
        words=words,
        cwd=str(Path.cwd()),
        key=key,
        record=str(records.record_of(place.resolve(), verb)),
        result=None if result is None else str(result.resolve()),
    )


def _versions() -> dict[str, str]:
    installed = {each.name: each.version for each in importlib.metadata.distributions()}
    return {name: installed[name] for name in _VERSIONS if name in installed}
