"""A chain of layers as a network, the critic that branches off it, and what is read of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Tensor, nn

from roadworthy.capture.source import Source
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.actor import Network, Tensors, results, stacked
from roadworthy.frameworks.network.chain import Chain, Layer
from roadworthy.frameworks.network.images import ImageInput, Images
from roadworthy.frameworks.network.layers import ACTIVATIONS, layer, recurrent
from roadworthy.frameworks.network.memory import CRITIC, start, stepped
from roadworthy.frameworks.network.statistics import VALUE, with_value
from roadworthy.frameworks.questions import Head
from roadworthy.frameworks.reading import Answers, Reading
from roadworthy.spec.transforms import Normalizer


class ChainNetwork(Network):
    """The layers of a chain, one behind the other."""

    def __init__(
        self,
        chain: Chain,
        activation: str,
        images: Images | None,
        where: str,
        *,
        statistics: Normalizer | None = None,
        statistics_first: bool = False,
    ) -> None:
        super().__init__()
        self.images = images
        self.where = where
        self.chain = chain
        self.seen: nn.Module = nn.Identity()
        if images is not None:
            self.seen = ImageInput(images, statistics, statistics_first=statistics_first)
        self.layers = nn.ModuleList(self._built(chain, activation))
        self.inputs = chain.layers[0].inputs
        self.critic = nn.ModuleList()
        # Behind how many modules of the actor the critic branches off.
        self.branch: int | None = None
        self.returns: nn.Module = nn.Identity()

    def add_critic(
        self, chain: Chain | str, activation: str, wanted: Collection[str],
        returns: nn.Module | None = None,
    ) -> None:  # fmt: skip
        """Gives the network the output `value`, if it is wanted; shared layers are run once."""
        if VALUE not in wanted:
            return
        assert not isinstance(chain, str)
        same = 0
        for own, other in zip(self.chain.layers, chain.layers, strict=False):
            if not own.same_as(other):
                break
            same += 1
        both = Chain(layers=chain.layers[:same], noise=(), critic=(), unexplained=())
        self.branch = sum(1 for _ in self._built(both, activation)) if same else 0
        made = list(self._built(chain, activation))
        self.critic.extend(made[self.branch :])
        self.returns = nn.Identity() if returns is None else returns

    def _built(self, chain: Chain, activation: str) -> Iterator[nn.Module]:
        steps = iter(self.images.steps if self.images else ())
        before: Layer | None = None
        for own in chain.layers:
            at = f"{self.where}: {own.path}"
            yield from _between(chain, before, own, activation)
            if own.kind in ("lstm", "gru"):
                yield recurrent(own.weights, at)
            else:
                yield layer(own.weights, at, steps=steps if own.kind == "conv" else None)
            before = own

    def example(self) -> Tensors:
        """A value for each input."""
        if self.images is None:
            return {"obs": torch.zeros(1, self.inputs)}
        return {"obs": self.images.example()}

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        """Where the recurrent layers start; those of the critic alone are `value_h`, `value_c`."""
        found: Tensors = {}
        for layers, prefix in ((self.layers, ""), (self.critic, CRITIC)):
            for place, cell in enumerate(_cells(layers)):
                found |= start(cell, place, prefix)
        return found

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        begun = self.seen(ports["obs"].float())
        kept = self.layers[: self.branch or 0]
        value, after = _run(kept, begun, ports, 0)
        rest = self.layers[self.branch or 0 :]
        action, more = _run(rest, value, ports, len(_cells(kept)))
        after |= more
        if self.branch is not None:
            value, more = _run(self.critic, value, ports, 0, CRITIC)
            after |= {**more, VALUE: self.returns(value)}
        return results(action, wanted, after)


def _between(
    chain: Chain, before: Layer | None, own: Layer, activation: str
) -> Iterator[nn.Module]:
    if before is None:
        return
    if chain.gap(before, own) and before.kind not in ("lstm", "gru"):
        yield ACTIVATIONS[activation]()
    if before.kind == "conv" and own.kind != "conv":
        yield nn.Flatten()


def _cells(layers: Sequence[nn.Module] | nn.ModuleList) -> list[nn.LSTM | nn.GRU]:
    return [each for each in layers if isinstance(each, (nn.LSTM, nn.GRU))]


def _run(
    layers: Sequence[nn.Module] | nn.ModuleList,
    value: Tensor,
    ports: Tensors,
    place: int,
    prefix: str = "",
) -> tuple[Tensor, Tensors]:
    """What the layers give, and the memory of those that have one; `place` counts these."""
    after: Tensors = {}
    for each in layers:
        if isinstance(each, (nn.LSTM, nn.GRU)):
            value, state = stepped(each, value, ports, place, prefix)
            after |= state
            place += 1
        else:
            value = each(value)
    return value, after


def chain_reading(
    contents: Contents,
    answers: Answers,
    chain: Chain,
    *,
    activation: str | None,
    images: Images | None,
    head: Head | None,
    outputs: tuple[str, ...],
    critic: Chain | str,
    algorithm: str = "",
    around: Callable[[Network], Network] | None = None,
) -> Reading:
    """The reading of a file that holds a chain and no statistics.

    `outputs` are those that such a file may have, while nobody has said what the head is. `around`
    puts something around the network.
    """

    def build(wanted: Sequence[str]) -> Source:
        assert activation is not None
        assert head is not None
        network = ChainNetwork(chain, activation, images, contents.where)
        network.add_critic(critic, activation, wanted)
        source = head.source(network if around is None else around(network), wanted)
        axis = images.stack_axis if images else -1
        return stacked(source, answers.frame_stack, axis=axis, repeat_first=True)

    known, absent = with_value(head.outputs if head else outputs, critic)
    return Reading(
        algorithm=algorithm,
        architecture=chain.text + (f", {activation}" if activation else ""),
        observation=answers.env_observation,
        action=answers.env_action,
        unexplained=chain.unexplained,
        outputs=known,
        absent=absent,
        build=build,
    )
