"""Bare state_dicts of MLP, CNN, LSTM and GRU actors: weights, and no word about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from roadworthy.checkpoints.actor import Network, Tensors
from roadworthy.checkpoints.chain import Chain, Layer, chain_of, refuse_no_chain
from roadworthy.checkpoints.layers import ACTIVATIONS, layer, loaded, recurrent, unexplained
from roadworthy.checkpoints.opening import Contents, refuse_bad_weights
from roadworthy.checkpoints.questions import (
    ask_activation,
    ask_head,
    ask_no_normalizer,
    numbers,
    whole_numbers,
)
from roadworthy.checkpoints.reading import ENV, Answers, Reading
from roadworthy.checkpoints.spaces import Box
from roadworthy.source import Source

NAME = "a bare state_dict"


def recognise(contents: Contents) -> str | None:
    """Why the file looks like a state_dict: it maps names to tensors, and to nothing else."""
    weights = contents.tensors()
    whole = isinstance(contents.tree, dict) and len(weights) == len(contents.tree)
    return "it maps names to tensors, and to nothing else" if whole and weights else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What can be known of a network by the names and shapes of its weights."""
    weights = contents.tensors()
    refuse_bad_weights(weights, contents.where)
    chain = chain_of(weights)
    refuse_no_chain(chain, contents.where)
    activation = ask_activation(answers)
    images = ask_images(answers, chain) if chain.of("conv") else None
    if chain.of("lstm", "gru"):
        answers.note("behind the recurrent layer", "no activation", "the usual way")
    ask_no_normalizer(answers)
    head = ask_head(answers, chain.layers[-1].outputs)
    for name in chain.noise:
        answers.note(name, "the noise of training, not used")

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert head is not None
        network = ChainNetwork(chain, activation, images, contents.where)
        return head.source(network, network.example(), network.memory(), outputs)

    return Reading(
        framework=NAME,
        architecture=chain.text + (f", {activation}" if activation else ""),
        observation=answers.env.observation if answers.env else None,
        action=answers.env.action if answers.env else None,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
        unexplained=chain.unexplained,
        outputs=head.outputs if head else ("action", "action_raw", "logits"),
        build=build,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """How images reach the first convolution; strides and padding, which have no weights."""

    shape: tuple[int, ...]
    divisor: float
    strides: tuple[int, ...]
    padding: tuple[int, ...]


def ask_images(answers: Answers, chain: Chain) -> Images | None:
    """What the weights of convolutions do not say."""
    count = len(chain.of("conv"))
    env = answers.env.observation if answers.env else None
    told = ",".join(map(str, env.shape)) if isinstance(env, Box) else None

    def each(text: str) -> tuple[int, ...]:
        found = whole_numbers(text)
        if len(found) not in (1, count):
            raise ValueError(text)
        return found * count if len(found) == 1 else found

    def shape_of(text: str) -> tuple[int, ...]:
        found = whole_numbers(text)
        if len(found) != 3:
            raise ValueError(text)
        return found

    shape = answers.ask(
        "image", "the shape of the image: channels first, as the first convolution takes it",
        read=shape_of, found=[(told, ENV)], such_as="4,84,84", others=("--env ID",),
    )  # fmt: skip
    divisor = answers.ask(
        "divisor", "what the pixels are divided by before the network",
        read=lambda text: numbers(text)[0], such_as="255",
    )  # fmt: skip
    strides = answers.ask("strides", "the stride of each convolution", read=each, such_as="4,2,1")
    padding = answers.ask("padding", "the padding of each convolution", read=each, such_as="0")
    if shape is None or divisor is None or strides is None or padding is None:
        return None
    return Images(shape=shape, divisor=divisor, strides=strides, padding=padding)


class ChainNetwork(Network):
    """The layers of a chain, one behind the other."""

    def __init__(self, chain: Chain, activation: str, images: Images | None, where: str) -> None:
        super().__init__()
        self.images = images
        self.layers = nn.ModuleList()
        convolutions = 0
        for before, own in zip((None, *chain.layers), chain.layers, strict=False):
            self._between(chain, before, own, activation)
            if own.kind == "conv":
                assert images is not None
                stride, padding = images.strides[convolutions], images.padding[convolutions]
                convolutions += 1
                self.layers.append(_convolution(own, stride, padding, where))
            elif own.kind in ("lstm", "gru"):
                self.layers.append(recurrent(own.weights, f"{where}: {own.path}"))
            else:
                self.layers.append(layer(own.weights, f"{where}: {own.path}"))
        self.inputs = chain.layers[0].inputs
        self._refuse_misfit(where)

    def _between(self, chain: Chain, before: Layer | None, own: Layer, activation: str) -> None:
        if before is None:
            return
        if chain.gap(before, own) and before.kind not in ("lstm", "gru"):
            self.layers.append(ACTIVATIONS[activation]())
        if before.kind == "conv" and own.kind != "conv":
            self.layers.append(nn.Flatten())

    def _refuse_misfit(self, where: str) -> None:
        try:
            with torch.no_grad():
                self.step({**self.example(), **self.memory()}, ())
        except RuntimeError as error:
            raise unexplained(
                where, f"the layers do not follow each other: {str(error).splitlines()[0]}"
            ) from error

    def example(self) -> Tensors:
        """A value for each input."""
        if self.images is None:
            return {"obs": torch.zeros(1, self.inputs)}
        pixels = torch.uint8 if self.images.divisor == 255 else torch.float32
        return {"obs": torch.zeros(1, *self.images.shape, dtype=pixels)}

    def memory(self) -> Tensors:
        """Where the recurrent layers start."""
        found: Tensors = {}
        for place, each in enumerate(self._recurrent()):
            zeros = torch.zeros(each.num_layers, 1, each.hidden_size)
            found[f"h{place or ''}"] = zeros
            if isinstance(each, nn.LSTM):
                found[f"c{place or ''}"] = zeros.clone()
        return found

    def _recurrent(self) -> list[nn.LSTM | nn.GRU]:
        return [each for each in self.layers if isinstance(each, (nn.LSTM, nn.GRU))]

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        value, after = ports["obs"].float(), {}
        if self.images is not None:
            value = value / self.images.divisor
        place = 0
        for each in self.layers:
            if isinstance(each, (nn.LSTM, nn.GRU)):
                value, state = _stepped(each, value, ports, place)
                after |= state
                place += 1
            else:
                value = each(value)
        return {"action": value, **{n: value for n in wanted if n != "action"}, **after}


def _stepped(
    rnn: nn.LSTM | nn.GRU, value: Tensor, ports: Tensors, place: int
) -> tuple[Tensor, Tensors]:
    h, c = f"h{place or ''}", f"c{place or ''}"
    if isinstance(rnn, nn.GRU):
        out, state = rnn(value.unsqueeze(0), ports[h])
        return out.squeeze(0), {h: state}
    out, (hidden, cell) = rnn(value.unsqueeze(0), (ports[h], ports[c]))
    return out.squeeze(0), {h: hidden, c: cell}


def _convolution(own: Layer, stride: int, padding: int, where: str) -> nn.Module:
    out, channels, *kernel = own.weights["weight"].shape
    made = nn.Conv2d(channels, out, tuple(kernel), stride, padding, bias="bias" in own.weights)
    return loaded(made, own.weights, f"{where}: {own.path}")
