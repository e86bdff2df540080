"""A chain of layers, found by the names and shapes of weights that nobody explains."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from roadworthy.frameworks.network.layers import Weights, unexplained
from roadworthy.frameworks.reading import Answers

LayerKind = Literal["conv", "linear", "norm", "lstm", "gru"]
# Words in the names of networks that do not act, and of those that do.
_CRITIC = {"critic", "value", "vf", "q", "qf", "qf1", "qf2", "v", "target", "baseline"}
_ACTOR = {"actor", "policy", "pi", "mu", "action", "mean"}
# Parameters of a distribution: noise that a deterministic policy does not draw.
_NOISE = re.compile(r"(.*[._])?(log_?)?std(_param(eter)?)?")
_NUMBERS = re.compile(r"\d+")
AS_LISTED = "file"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """A layer's weights, its kind, and the numbers of its inputs and outputs."""

    path: str
    kind: LayerKind
    weights: Weights
    inputs: int
    outputs: int

    def same_as(self, other: Layer) -> bool:
        """Whether both stand at the same place with the same weights."""
        return self.path == other.path and all(
            name in other.weights and torch.equal(weight, other.weights[name])
            for name, weight in self.weights.items()
        )

    @property
    def place(self) -> tuple[str, int | None]:
        """The sequence that it stands in, and where: ("net", 2)."""
        prefix, _, last = self.path.rpartition(".")
        return (prefix, int(last)) if last.isdigit() else (self.path, None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """The layers of an actor in the order in which they act, and what else the file holds.

    `critic` are the paths of the network that was set aside.
    """

    layers: tuple[Layer, ...]
    noise: tuple[str, ...]
    critic: tuple[str, ...]
    unexplained: tuple[str, ...]

    def of(self, *kinds: LayerKind) -> tuple[Layer, ...]:
        return tuple(each for each in self.layers if each.kind in kinds)

    @property
    def kernels(self) -> list[Tensor]:
        """The weights of the convolutions, in order."""
        return [each.weights["weight"] for each in self.of("conv")]

    @property
    def text(self) -> str:
        """In words: "conv 32 → 64, MLP 3136 → 512 → 6"."""
        parts = []
        for kind in ("conv", "lstm", "gru", "linear"):
            own = self.of(kind)
            if own:
                sizes = " → ".join(map(str, [own[0].inputs, *(each.outputs for each in own)]))
                parts.append(f"{'MLP' if kind == 'linear' else kind} {sizes}")
        norms = len(self.of("norm"))
        parts += [f"{norms} norm{'s' * (norms > 1)}"] * bool(norms)
        return ", ".join(parts)

    def gap(self, before: Layer, after: Layer) -> bool:
        """Whether an activation stands between two layers that follow each other."""
        (one, here), (other, there) = before.place, after.place
        if one == other and here is not None and there is not None:
            flattened = before.kind == "conv" and after.kind == "linear"
            return there - here > 1 + flattened  # a place without weights; one of them flattens
        # Named layers: a norm directly behind what it normalises, an activation behind everything.
        return after.kind != "norm"


def chain_of(weights: Weights, *, critic: bool = False) -> Chain:
    """The layers of the network that acts, or of the critic; those of the other are set aside."""
    acting_words, other_words = (_CRITIC, _ACTOR) if critic else (_ACTOR, _CRITIC)
    noise = tuple(name for name in weights if _NOISE.fullmatch(name))
    paths = dict.fromkeys(_path(name) for name in weights if name not in noise)
    other = tuple(
        path for path in paths if _words(path) & other_words and not _words(path) & acting_words
    )
    layers = [_layer(path, weights) for path in paths if path not in other]
    known = [each for each in layers if isinstance(each, Layer)]
    strange = [each for each in layers if isinstance(each, str)]
    acting = [each for each in known if _words(each.path) & acting_words]
    trunk = [each for each in known if each not in acting]
    chain = (*trunk, *acting)
    strange += list(_breaks(chain))
    return Chain(layers=chain, noise=noise, critic=other, unexplained=tuple(strange))


def _path(name: str) -> str:
    return name.rpartition(".")[0]


def _words(path: str) -> set[str]:
    return {word for part in path.lower().split(".") for word in (part, *part.split("_"))}


def _layer(path: str, weights: Weights) -> Layer | str:
    """The layer at a path, or the names of weights that are none."""
    own = {
        name[len(path) + 1 :] if path else name: w for name, w in weights.items()
        if _path(name) == path
    }  # fmt: skip
    kind, sizes = _kind(own)
    if kind is None:
        return ", ".join(f"{path}.{name}".lstrip(".") for name in own)
    return Layer(path=path, kind=kind, weights=own, inputs=sizes[0], outputs=sizes[1])


def _kind(own: dict[str, Tensor]) -> tuple[LayerKind | None, tuple[int, int]]:
    if "weight_ih_l0" in own and "weight_hh_l0" in own:
        hidden = own["weight_hh_l0"].shape[1]
        gates = own["weight_ih_l0"].shape[0] // hidden
        kinds: dict[int, LayerKind] = {4: "lstm", 3: "gru"}
        return kinds.get(gates), (own["weight_ih_l0"].shape[1], hidden)
    weight = own.get("weight")
    if weight is None or not set(own) <= {"weight", "bias", "running_mean", "running_var",
                                           "num_batches_tracked"}:  # fmt: skip
        return None, (0, 0)
    kind: LayerKind | None = {4: "conv", 2: "linear", 1: "norm"}.get(weight.ndim)  # type: ignore[assignment]
    return kind, (weight.shape[1] if weight.ndim > 1 else weight.shape[0], weight.shape[0])


def _breaks(chain: Sequence[Layer]) -> Iterator[str]:
    """The layers that do not take what the one before them gives."""
    for before, after in itertools.pairwise(chain):
        flattened = before.kind == "conv" and after.kind in ("linear", "lstm", "gru")
        if after.inputs != before.outputs and not flattened:
            yield f"{after.path} (takes {after.inputs}, {before.path} gives {before.outputs})"


def critic_of(weights: Weights, chain: Chain) -> Chain | str:
    """The critic of a file whose actor is `chain`, or in words why there is none to ask."""
    found = chain_of(weights, critic=True)
    if not found.layers or found.layers[-1].same_as(chain.layers[-1]):
        return "the file holds no critic"
    if found.unexplained:
        return f"the critic cannot be rebuilt: {found.unexplained[0]}"
    if found.layers[0].inputs != chain.layers[0].inputs:
        return (
            f"the critic takes {found.layers[0].inputs} numbers, the policy "
            f"{chain.layers[0].inputs}: it sees something else"
        )
    if len(found.kernels) != len(chain.kernels) and found.kernels:
        return "the critic has other convolutions than the policy"
    if found.layers[-1].outputs != 1:
        return f"the critic gives {found.layers[-1].outputs} numbers, not one"
    return found


def refuse_no_chain(chain: Chain, where: str) -> None:
    """An error where there is nothing that acts."""
    if not chain.layers:
        raise unexplained(where, "no layer of a network that acts is in the file")


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
