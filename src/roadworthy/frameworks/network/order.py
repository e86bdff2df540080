"""The order of layers that could act in another one: numbers in their names say it, or a person."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from roadworthy.frameworks.network.chain import Chain, Layer
from roadworthy.frameworks.reading import Answers

_NUMBERS = re.compile(r"\d+")
AS_LISTED = "file"


def ask_order(answers: Answers, chain: Chain) -> Chain:
    """The chain with its layers in order; a question where two of one shape could change places."""
    listed = ",".join(layer.path for layer in chain.layers)
    if not _is_one_sequence(chain):
        answers.note("layers", "each acts on what the one before it gives", "the usual way")
    doubtful = next(_exchangeable(chain), None)
    if doubtful is None:
        return chain

    def read(text: str) -> Chain:
        if text == AS_LISTED:
            return chain
        by_path = {layer.path: layer for layer in chain.layers}
        wanted = [each.strip() for each in text.split(",")]
        if sorted(wanted) != sorted(by_path):
            raise ValueError(text)
        return replace(chain, layers=tuple(by_path[each] for each in wanted))

    one, other = doubtful
    found = answers.ask(
        "order",
        f"which layer acts first: {one.path} and {other.path} have one shape, and their names do "
        f"not say it; {AS_LISTED} is the order of the file",
        read=read,
        such_as=listed,
    )
    return found or chain


def _exchangeable(chain: Chain) -> Iterator[tuple[Layer, Layer]]:
    """Pairs of layers that fit in each other's place, and whose names give them no numbers."""
    for one, other in itertools.combinations(chain.layers, 2):
        alike = (one.kind, one.inputs, one.outputs) == (other.kind, other.inputs, other.outputs)
        if alike and one.kind != "norm" and not _numbered(one.path, other.path):
            yield one, other


def _numbered(one: str, other: str) -> bool:
    """Whether two names differ in numbers alone, which then count upwards."""
    numbers = [[int(each) for each in _NUMBERS.findall(path)] for path in (one, other)]
    return _NUMBERS.sub("", one) == _NUMBERS.sub("", other) and numbers[0] < numbers[1]


def _is_one_sequence(chain: Chain) -> bool:
    places = [layer.place for layer in chain.layers]
    return len({name for name, _ in places}) == 1 and None not in [at for _, at in places]
