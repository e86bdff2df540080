"""How long an environment must be watched until it has shown what it does."""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors.lines import is_authors_class
from roadworthy.inspection.reach import names_in
from roadworthy.inspection.walking import walk
from roadworthy.operators.table import known

LEAST_STEPS = 32
# A command every 500 steps is common, an episode of 1,000 as well.
MOST_STEPS = 1100


@dataclass(frozen=True, slots=True)
class Horizon:
    """The policy steps that are watched, and the numbers in the code that lie beyond them."""

    steps: int
    beyond: tuple[int, ...] = ()

    def moments(self) -> list[int]:
        """The steps at which the environment is looked at closely, from the first to the last."""
        early = [1, 2, 3, 5, 8, 13, 21, 32]
        later = range(self.steps, 0, -max(1, self.steps // 4))
        return sorted({each for each in (*early, *later) if each <= self.steps})


def horizon(source: EnvironmentSource, codes: Iterable[types.CodeType]) -> Horizon:
    """As many steps as it takes to pass every number that the code compares with, and every queue.

    `codes` are what runs when the environment is stepped and reset.
    """
    numbers = {*_compared(source, codes), *_queues(source)}
    within = [each for each in numbers if _steps(each) <= MOST_STEPS]
    steps = max([LEAST_STEPS, *map(_steps, within)])
    return Horizon(steps, tuple(sorted(numbers - set(within))))


def _steps(number: int) -> int:
    return number + number // 8 + 4


def _compared(source: EnvironmentSource, codes: Iterable[types.CodeType]) -> Iterator[int]:
    comparing = [code for code in codes if _compares(code)]
    said: set[str] = set()
    for code in comparing:
        said |= names_in(code)
        yield from (n for each in code.co_consts for n in _whole(each))
    kinds: set[type] = set()
    for path, value in walk(source.env):
        if path.rpartition(".")[2] in said:
            yield from _whole(value)
        kinds |= set(type(value).__mro__)
    for kind in filter(is_authors_class, kinds):
        yield from (n for name in said & vars(kind).keys() for n in _whole(vars(kind)[name]))


def _compares(code: types.CodeType) -> bool:
    """Whether a code compares, or takes a remainder; of tensors by name, else by instruction."""
    if any(known(name).in_code for name in code.co_names):
        return True
    return any(
        each.opname == "COMPARE_OP" or (each.opname == "BINARY_OP" and "%" in each.argrepr)
        for each in dis.get_instructions(code)
    )


def _whole(value: object) -> Iterator[int]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if 2 <= value < 1e9 and value == int(value):
        yield int(value)


def _queues(source: EnvironmentSource) -> Iterator[int]:
    for read in source.memory.values():
        yield from (size for size in read().shape if size > 1)
    for _, value in walk(source.env):
        if isinstance(value, deque) and value.maxlen:
            yield value.maxlen
