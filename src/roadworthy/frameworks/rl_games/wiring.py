"""How the parts of an rl_games network follow each other, read off their shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from roadworthy.frameworks.network.layers import places, under
from roadworthy.frameworks.questions import ask_flag
from roadworthy.frameworks.reading import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The parts by the beginnings of their names, and their order.

    heads        "mu", "trunk" for SAC, "logits", or "logits.0", "logits.1", …
    cell, norm   the recurrent layer and the LayerNorm behind it; empty where there is none
    with_input   whether the recurrent layer also sees the observation, behind the MLP's output
    with_output  whether what follows it also sees the observation
    """

    inputs: int
    actions: int
    heads: tuple[str, ...]
    choices: tuple[int, ...]
    cell: str = ""
    norm: str = ""
    before_mlp: bool = False
    with_input: bool = False
    with_output: bool = False
    text: str = ""

    @property
    def used(self) -> tuple[str, ...]:
        """The beginnings of the names of all weights that act."""
        body = ("trunk.",) if self.heads == ("trunk",) else ("actor_cnn.", "actor_mlp.")
        return (*body, *(f"{name}." for name in (*self.heads, self.cell, self.norm) if name))


def wiring_of(
    own: Mapping[str, Tensor], statistics: Mapping[str, Tensor], answers: Answers
) -> Wiring:
    """The order of the parts; a question where shapes allow two."""
    heads = _heads(own)
    body = under(own, "trunk" if heads == ("trunk",) else "actor_mlp")
    kernels = (body.get(f"{place}.weight") for place in places(body))
    sizes = [kernel.shape for kernel in kernels if kernel is not None]
    taken, given = (int(sizes[0][1]), int(sizes[-1][0])) if sizes else (0, 0)
    outputs = [int(own[f"{name}.weight"].shape[0]) for name in heads if f"{name}.weight" in own]
    text = f"MLP {' → '.join(map(str, [taken, *(int(size[0]) for size in sizes)]))}"
    choices = tuple(outputs) if heads[:1] != ("mu",) and heads != ("trunk",) else ()
    actions = given // 2 if heads == ("trunk",) else sum(outputs)
    cell = next((n for n in ("a_rnn.rnn", "rnn.rnn") if under(own, n)), "")
    if not cell:
        return Wiring(inputs=taken, actions=actions, heads=heads, choices=choices, text=text)
    seen = int(own[f"{cell}.weight_ih_l0"].shape[1])
    hidden = int(own[f"{cell}.weight_hh_l0"].shape[1])
    read = int(own[f"{heads[0]}.weight"].shape[1])
    observed = statistics["running_mean"].numel() if "running_mean" in statistics else None
    before = taken in (hidden, hidden + seen) and read == given and observed in (None, seen)
    after = (
        seen in (given, given + taken)
        and read in (hidden, hidden + taken)
        and observed in (None, taken)
    )
    first = _ask_order(answers) if before and after else before
    obs = seen if first else taken
    norm = next((n for n in ("a_layer_norm", "layer_norm") if f"{n}.weight" in own), "")
    return Wiring(
        inputs=obs,
        actions=actions,
        heads=heads,
        choices=choices,
        cell=cell,
        norm=norm,
        before_mlp=bool(first),
        with_input=not first and seen == given + obs,
        with_output=(taken == hidden + obs) if first else (read == hidden + obs),
        text=f"{'recurrent ' if first else ''}{text}{'' if first else ', recurrent'} {hidden}",
    )


def _heads(own: Mapping[str, Tensor]) -> tuple[str, ...]:
    if any(name.startswith("trunk.") for name in own):
        return ("trunk",)
    if "mu.weight" in own:
        return ("mu",)
    if "logits.weight" in own:
        return ("logits",)
    return tuple(f"logits.{place}" for place in places(under(own, "logits")))


def _ask_order(answers: Answers) -> bool | None:
    return ask_flag(
        answers,
        "before_mlp",
        "whether the recurrent layer stands before the MLP; the shapes allow both",
        others=("params.network.rnn.before_mlp in params/agent.yaml",),
    )
