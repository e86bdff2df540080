"""YAML that a person wrote: plain data only, no key twice, and errors with their line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError, need
from roadworthy.spec.limits import MEBI

_MOST_BYTES = MEBI


def read_yaml(path: Path, *, code: str, such_as: str) -> Mapping[str, Any]:
    """The names and values of a YAML or JSON file; errors have the `code`."""
    yaml: Any = need("yaml", extra="export")
    if not path.is_file():
        raise UsageError("there is no such file", code=code, where=str(path), hint=such_as)
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(
            "it has more than 1 MB, which nobody wrote", code=code, where=str(path), hint=such_as
        )

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Builds no objects, and takes no key twice: of two gains YAML silently takes the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [str(key.value) for key, _ in node.value]
            often = Counter(keys)
            for (place, _), key in zip(node.value, keys, strict=True):
                if often[key] > 1:
                    what = f"the key {key!r} stands there twice"
                    raise _problem(path, place.start_mark, what, code)
            made: dict[Any, Any] = super().construct_mapping(node, deep)
            return made

    try:
        found = yaml.load(path.read_bytes(), Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = str(getattr(error, "problem", None) or error)
        raise _problem(path, mark, what, code) from error
    if not isinstance(found, Mapping):
        what = f"expected names and values, got {type(found).__name__}"
        raise UsageError(what, code=code, where=str(path), hint=such_as)
    return found


def _problem(path: Path, mark: Any, what: str, code: str) -> UsageError:
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    return UsageError(what, code=code, where=where, hint="correct the line")
