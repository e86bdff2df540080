"""`file.py:name` and `package.module:name`: objects that a user points to on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from roadworthy.cli.unrun import defined_in
from roadworthy.errors import RoadworthyError, UsageError, did_you_mean
from roadworthy.spec.bundle import nearest, restored

# What a path ends in that is meant for a file, and not for a module of a package.
_FILES = (".zip", ".pt", ".pth", ".pt2", ".ckpt", ".onnx", ".safetensors", ".pkl", ".bin", ".npz")


def refuse_missing(path: Path) -> None:
    """An error for a path that does not exist."""
    if not path.exists() and not restored(path):
        raise UsageError(f"{path} does not exist", hint=nearest(path))


def refuse_unreachable(target: str, *, file: bool = True) -> None:
    """An error, before anything is imported, if it can be seen that `target` names nothing.

    `file` allows the path of a file that is no Python, such as a checkpoint.
    """
    if file and Path(target).exists() and not target.endswith(".py"):
        return
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    path = Path(place)
    if not place.endswith(".py"):
        _refuse_absent_module(place, name)
        return
    if not path.is_file():
        raise UsageError(f"{place} does not exist", hint=nearest(path))
    defined = defined_in(path)
    if defined is None:
        return
    if not name:
        raise _no_object(target, place, _public(defined.values))
    if name in defined.classes:
        raise _class_of(target)
    if name not in (*defined.values, *defined.imported):
        raise _no_such(place, name, _public(defined.values))


def _refuse_absent_module(place: str, name: str) -> None:
    """An error for a package that is not installed, or a path that does not exist."""
    if not name and (len(Path(place).parts) > 1 or Path(place).suffix in _FILES):
        raise UsageError(f"{place} does not exist", hint=nearest(Path(place)))
    package = place.partition(".")[0]
    if package.isidentifier() and importlib.util.find_spec(package) is None:
        raise UsageError(
            f"No module named {package!r}",
            where=place,
            hint="file.py:NAME names an object of a file, and package.module:NAME one of a package "
            "that is installed; an environment is named with its version: CartPole-v1",
        )


def _public(names: Iterable[str]) -> list[str]:
    return [each for each in names if not each.startswith("_")]


def _no_object(target: str, place: str, known: Sequence[str]) -> UsageError:
    return UsageError(
        f"{target} names no object",
        hint=f"{place}:NAME, with NAME one of {', '.join(known) or 'the names in the file'}",
    )


def _no_such(place: str, name: str, known: Sequence[str]) -> UsageError:
    return UsageError(f"{place} has no {name!r}", hint=did_you_mean(name, known))


def _class_of(target: str) -> UsageError:
    return UsageError(
        f"{target} is a class, not a trained policy",
        hint="name an instance, or a function that makes one, loads its weights and returns it",
    )


def thing(target: str) -> Any:
    """What a source argument names: the path of a file that is there, or an object."""
    path = Path(target)
    return path if path.exists() and not target.endswith(".py") else resolve(target)


def resolve(target: str) -> Any:
    """The object that `target` names; a function without required arguments is called."""
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    module = _module(place)
    public = [key for key in vars(module) if not key.startswith("_") and _is_candidate(module, key)]
    if not name:
        raise _no_object(target, place, public)
    if not hasattr(module, name):
        raise _no_such(place, name, public)
    found = getattr(module, name)
    if isinstance(found, type):
        raise _class_of(target)
    if not inspect.isroutine(found):
        return found
    with explained(place):
        return found()


def _is_candidate(module: ModuleType, key: str) -> bool:
    value = getattr(module, key)
    if inspect.ismodule(value) or isinstance(value, type):
        return False
    return getattr(value, "__module__", module.__name__) in (module.__name__, None) or (
        not inspect.isroutine(value)
    )


def _module(place: str) -> ModuleType:
    path = Path(place)
    if not place.endswith(".py"):
        if path.is_file():
            raise UsageError(
                f"{place} is not a Python file",
                hint="write a load.py with a function that returns the loaded module, and pass "
                "load.py:function",
            )
        with explained(place):
            return importlib.import_module(place)
    if not path.is_file():
        raise UsageError(f"{place} does not exist", hint=nearest(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _importable(path, module), explained(place):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importable(path: Path, module: ModuleType) -> Iterator[None]:
    """The file's own folder on the path, as `python file.py` would have it."""
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        sys.path.remove(str(path.resolve().parent))


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Whatever the user's code raises, as a finding with its line; what it prints is no result."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except RoadworthyError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [each for each in frames if Path(each.filename).name == Path(place).name]
        where = f"{place}:{inside[-1].lineno}" if inside else place
        raise UsageError(f"{type(error).__name__}: {error}", where=where) from error
