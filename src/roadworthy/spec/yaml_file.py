"""The one reader of YAML: plain data, of Python's tags only tuples and ordered dicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError, need
from roadworthy.spec.limits import MEBI

_MOST_BYTES = MEBI
# Aliases are written once and counted as often as they stand for something.
MOST_VALUES = 1_000_000
_PYTHON = "tag:yaml.org,2002:python/"


class BadYaml(ValueError):
    """What is wrong with a text, its line where that is known, and whether it would run code."""

    def __init__(self, problem: str, line: int | None = None, *, runs_code: bool = False) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.problem, self.line, self.runs_code = problem, line, runs_code


def plain_yaml(text: str | bytes, *, keys_once: bool = False) -> Any:
    """The plain data of a text; BadYaml for anything else. Nothing in it is run.

    keys_once  refuses a key that stands twice: of two gains YAML silently takes the last
    """
    yaml: Any = need("yaml", extra="export")
    loader = _loader_class(yaml, keys_once)(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_bomb(node)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error)
        raise BadYaml(problem, mark.line + 1 if mark else None) from error
    except RecursionError as error:
        raise BadYaml("it is nested too deeply to be settings") from error
    finally:
        loader.dispose()


def read_yaml(path: Path, *, code: str, such_as: str) -> Mapping[str, Any]:
    """The names and values of a YAML or JSON file that a person wrote; errors have the `code`."""
    need("yaml", extra="export")
    if not path.is_file():
        raise UsageError("there is no such file", code=code, where=str(path), hint=such_as)
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(
            "it has more than 1 MB, which nobody wrote", code=code, where=str(path), hint=such_as
        )
    try:
        found = plain_yaml(path.read_bytes(), keys_once=True)
    except BadYaml as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise UsageError(error.problem, code=code, where=where, hint="correct the line") from error
    if not isinstance(found, Mapping):
        what = f"expected names and values, got {type(found).__name__}"
        raise UsageError(what, code=code, where=str(path), hint=such_as)
    return found


def _loader_class(yaml: Any, keys_once: bool) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            if keys_once:
                _refuse_twice(node)
            made: dict[Any, Any] = super().construct_mapping(node, deep)
            return made

    def sequence(loader: Any, node: Any) -> Any:
        return tuple(loader.construct_sequence(node, deep=True))

    def ordered(loader: Any, node: Any) -> Any:
        # !!python/object/apply:collections.OrderedDict [[[key, value], …]]
        pairs = loader.construct_sequence(node, deep=True)
        return dict(pairs[0] if pairs else ())

    def refused(loader: Any, suffix: str, node: Any) -> Any:
        raise BadYaml(
            f"the tag {node.tag} would run Python", node.start_mark.line + 1, runs_code=True
        )

    Loader.add_constructor(f"{_PYTHON}tuple", sequence)
    Loader.add_constructor(f"{_PYTHON}object/apply:collections.OrderedDict", ordered)
    Loader.add_multi_constructor(_PYTHON, refused)
    Loader.add_multi_constructor("", refused)
    return Loader


def _refuse_twice(node: Any) -> None:
    keys = [str(key.value) for key, _ in node.value]
    often = Counter(keys)
    for (place, _), key in zip(node.value, keys, strict=True):
        if often[key] > 1:
            raise BadYaml(f"the key {key!r} stands there twice", place.start_mark.line + 1)


def _refuse_bomb(root: Any) -> None:
    """An error for aliases that stand for themselves, or for more than any settings hold."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Any) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            raise BadYaml("an alias stands for what it is in", node.start_mark.line + 1)
        open_nodes.add(id(node))
        inner = node.value if isinstance(node.value, list) else ()
        parts = [each for one in inner for each in (one if isinstance(one, tuple) else (one,))]
        total = 1 + sum(size(each) for each in parts)
        if total > MOST_VALUES:
            raise BadYaml(f"its aliases stand for more than {MOST_VALUES} values",
                          node.start_mark.line + 1)  # fmt: skip
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        return total

    size(root)
