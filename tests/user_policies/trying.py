"""Tries a case as somebody new would: one call, the hint of its refusal, a second call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import roadworthy as rw
from tests.user_policies.cases import HINT, Case, Live

STEPS = 200
ROWS = (1, 3)
# How often a row begins anew.
BEGINS = 0.03
KEYWORD = re.compile(r"\b(memory|method|constants|outputs|exploration|fix|dynamic|batch)=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a case: one of the words of the table, and how far the artifact was away."""

    outcome: str
    said: str = ""
    code: str = ""
    second: str = ""
    distance: float = 0.0


def tried(case: Case, folder: Path) -> Outcome:
    """What comes of the first call, and of the one that its hint leads to."""
    module = case.make()
    keywords = {"example": case.example, **case.keywords}
    said = code = second = ""
    for call in ("first call", "after one hint"):
        error = exported(module, folder, keywords)
        if error is None:
            distance = farthest(case, folder, keywords)
            outcome = call if distance <= case.margin else "wrong certificate"
            return Outcome(outcome=outcome, said=said, code=code, second=second, distance=distance)
        if not isinstance(error, rw.RoadworthyError) or isinstance(error, rw.InternalError):
            return Outcome(outcome="traceback", said=repr(error), second=second)
        said, code = str(error), error.findings[0].code
        more = followed(case, error.findings[0].hint)
        if not more or second:
            break
        second = ", ".join(f"{name}={spelled(value)}" for name, value in more.items())
        module = more.pop("module", lambda same: same)(module)
        keywords = joined(keywords, more)
    return Outcome(outcome="refused", said=said, code=code, second=second)


def exported(module: nn.Module, folder: Path, keywords: Mapping[str, Any]) -> Exception | None:
    """What the call raises, if anything."""
    try:
        rw.export(module, folder, **keywords)
    except Exception as error:  # a raw traceback is an outcome here
        return error
    return None


def followed(case: Case, hint: str) -> dict[str, Any]:
    """The keywords of the second call."""
    if case.then is None:
        return {}
    if isinstance(case.then, Mapping):
        return dict(case.then)
    assert case.then == HINT
    return read(hint)


def read(hint: str) -> dict[str, Any]:
    """The keywords that a hint says, as Python reads them; of alternatives the first."""
    found: dict[str, Any] = {}
    first = hint.partition("; ")[0] if KEYWORD.search(hint.partition("; ")[0]) else hint
    for match in KEYWORD.finditer(first):
        text = first[match.end() :]
        for end in range(len(text), 0, -1):
            if text[:end].rstrip().endswith(","):  # more words follow, not more of a tuple
                continue
            try:
                found[match[1]] = eval(text[:end], {"rw": rw, "torch": torch})
                break
            except (SyntaxError, NameError):
                continue
    return found


def joined(keywords: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a second call: what was said before, and what the hint adds."""
    both = dict(keywords)
    for name, value in more.items():
        before = both.get(name)
        mappings = isinstance(before, Mapping) and isinstance(value, Mapping)
        both[name] = {**before, **value} if mappings and name != "example" else value
    if isinstance(both["example"], Mapping):
        constant = both.get("constants", {})
        both["example"] = {k: v for k, v in both["example"].items() if k not in constant}
    return both


def spelled(value: Any) -> str:
    """A value as the table shows it."""
    return re.sub(r"<(?:function|bound method) ([\w.<>]+).*?>", r"\1", repr(value))


def farthest(case: Case, folder: Path, keywords: Mapping[str, Any]) -> float:
    """How far the artifact departs from the original over many steps, with resets.

    Every row has an original of its own, which begins anew with it; where there is no memory, one
    of them is called with all rows. The distance is relative to the largest value of the output.
    """
    policy = rw.load(folder)
    return max(_compared(case, policy, keywords, rows) for rows in ROWS)


def _compared(case: Case, policy: rw.Policy, keywords: Mapping[str, Any], rows: int) -> float:
    rng = np.random.default_rng(rows)
    each_alone = bool(policy.signature.memory)
    originals: list[Live] = [lambda _: None] * (rows if each_alone else 1)
    names = [port.name for port in policy.signature.inputs]
    worst, largest = np.zeros(0), np.zeros(0)
    for step in range(STEPS):
        begins = rng.random(rows) < BEGINS if step else np.ones(rows, dtype=bool)
        if begins.any():
            policy.reset() if begins.all() else policy.reset(begins)
        for row in np.flatnonzero(begins) if each_alone else [0] * (step == 0):
            originals[row] = at_work(case, keywords)
        given = drawn(keywords, rows, rng)
        with torch.no_grad():
            answers = [
                answered(original, nth(given, row) if each_alone else given, keywords)
                for row, original in enumerate(originals)
            ]
        expected = [torch.cat(parts).double().numpy() for parts in zip(*answers, strict=True)]
        got = policy.step(dict(zip(names, arrays(given), strict=True)))
        apart = [
            np.abs(np.asarray(one, float).reshape(other.shape) - other).max(initial=0)
            for one, other in zip(got.values(), expected, strict=True)
        ]
        sizes = [np.abs(other).max(initial=0) for other in expected]
        worst = np.maximum(worst, apart) if step else np.array(apart)
        largest = np.maximum(largest, sizes) if step else np.array(sizes)
    return float((worst / np.maximum(largest, 1e-6)).max())


def at_work(case: Case, keywords: Mapping[str, Any]) -> Live:
    """The original at the beginning of an episode, called as its users call it."""
    module = case.make().eval()
    if case.live is not None:
        return case.live(module)
    method, constants = keywords.get("method", "forward"), keywords.get("constants", {})
    function: Any = module
    if method != "forward":
        function = getattr(module, method) if isinstance(method, str) else None

    def call(given: Any) -> Any:
        parts = given if isinstance(given, Mapping) else {"": given}
        first = () if function is not None else (module,)
        if len(parts) == 1:
            return (function or method)(*first, *parts.values(), **constants)
        return (function or method)(*first, **parts, **constants)

    return call


def answered(original: Live, given: Any, keywords: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that the original answers with, without those that `outputs` leaves out."""
    result = original(given)
    leaves = [each for each in pytree.tree_leaves(_plain(result)) if isinstance(each, Tensor)]
    outputs = keywords.get("outputs")
    if outputs is None:
        return leaves
    return [leaf for leaf, name in zip(leaves, outputs, strict=False) if name is not None]


def _plain(result: Any) -> Any:
    fields = getattr(result, "__dataclass_fields__", None)
    return {name: getattr(result, name) for name in fields} if fields else result


def drawn(keywords: Mapping[str, Any], rows: int, rng: np.random.Generator) -> Any:
    """Inputs of the form of the example, with as many rows, inside of the limits that are said."""

    def draw(leaf: Tensor) -> Tensor:
        leaf = torch.as_tensor(leaf)
        shape = (rows, *leaf.shape[1:])
        if leaf.dtype == torch.bool:
            return torch.from_numpy(rng.random(shape) < 0.5)
        if leaf.is_floating_point():
            return torch.from_numpy(rng.standard_normal(shape)).to(leaf.dtype)
        low, high = int(leaf.min()), int(leaf.max())
        return torch.from_numpy(rng.integers(low, high + 1, shape)).to(leaf.dtype)

    given = pytree.tree_map(draw, keywords["example"])
    for name, about in keywords.get("about", {}).items():
        given[name] = given[name].clamp(about.low, about.high)
    return given


def nth(given: Any, row: int) -> Any:
    """What one row is given."""
    return pytree.tree_map(lambda leaf: leaf[row : row + 1], given)


def arrays(given: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The inputs as the runtime takes them."""
    for leaf in pytree.tree_leaves(given):
        yield (leaf.float() if leaf.dtype == torch.bfloat16 else leaf).numpy()
