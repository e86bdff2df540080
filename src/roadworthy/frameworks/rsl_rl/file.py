"""rsl_rl 1 to 5: `model_*.pt`, in the three layouts that its versions wrote."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from roadworthy.capture.source import Source
from roadworthy.frameworks.files.neighbours import AGENT
from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights
from roadworthy.frameworks.network.actor import Network, Tensors, results, source_of
from roadworthy.frameworks.network.images import Standardised
from roadworthy.frameworks.network.layers import recurrent, sequence, widths
from roadworthy.frameworks.network.memory import start, stepped
from roadworthy.frameworks.network.statistics import VALUE
from roadworthy.frameworks.reading import Answers, Reading
from roadworthy.frameworks.rsl_rl.critic import EPS, Critic, ask_critic, why_absent
from roadworthy.frameworks.rsl_rl.images import Image, ask_images, encoder
from roadworthy.frameworks.rsl_rl.layout import Layout, layout_of
from roadworthy.frameworks.rsl_rl.questions import (
    ask_activation,
    ask_groups,
    ask_head,
    ask_range,
    ask_steps,
    cnn_settings,
)
from roadworthy.spec.transforms import EpsOutsideRoot, Normalizer


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of rsl_rl: the keys that its runners write."""
    tree = contents.tree
    if not isinstance(tree, Mapping):
        return None
    if "iter" in tree and {"actor_state_dict", "student_state_dict"} & set(tree):
        return "it holds iter and actor_state_dict or student_state_dict"
    inside = contents.tensors("model_state_dict")
    acts = any(name.startswith(("actor.", "student.")) for name in inside)
    return "it holds iter, and actor.* in model_state_dict" if "iter" in tree and acts else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says, and what agent.yaml says beside it."""
    layout = layout_of(contents)
    refuse_bad_weights(layout.own, contents.where)
    settings = contents.neighbours.settings(AGENT)
    activation = ask_activation(contents, answers)
    head = ask_head(answers, layout, settings)
    low_high = ask_range(answers, settings) if head == "beta" else (-1.0, 1.0)
    images = (
        ask_images(answers, layout.actor.cnns, cnn_settings(settings)) if layout.actor.cnns else {}
    )
    groups = ask_groups(answers, layout, settings)
    steps = ask_steps(answers, contents)
    answers.note_noise(layout.noise)
    mean, std = layout.actor.statistics.get("_mean"), layout.actor.statistics.get("_std")
    answers.note("normalizer", "none" if mean is None else "(x - mean) / (std + 0.01)")
    shaped = sequence(layout.actor.mlp, "identity", where=contents.where)
    absent = why_absent(layout)
    valued = VALUE in answers.outputs and not absent
    seen = ask_critic(answers, layout, settings, activation) if valued else None

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert head is not None
        assert images is not None
        assert low_high is not None
        assert groups is not None
        assert steps is not None
        network = Policy(layout, activation, head, low_high, images, contents.where)
        ports, about = groups.ports(network.flat)
        network.groups = ports
        normalizer = _split(mean, std, ports)
        if VALUE in outputs:
            assert seen is not None
            assert layout.critic is not None
            network.critic = Critic(layout.critic, seen, contents.where)
            # The critic has statistics of its own, for the same observation.
            network.normalized = nn.ModuleDict({n: Standardised(s) for n, s in normalizer.items()})
            normalizer = {}
        return replace(source_of(network, outputs, steps, normalizer or None), about=about)

    kinds = ", ".join(filter(None, [
        f"CNN of {', '.join(layout.actor.cnns)}" if layout.actor.cnns else "",
        layout.actor.cell_text, f"MLP {widths(shaped)}", activation or "",
    ]))  # fmt: skip
    return Reading(
        version=layout.version,
        algorithm="distillation, the student" if layout.role == "student" else "PPO",
        architecture=kinds,
        normalizers=_split(mean, std, {"obs": mean.numel()}) if mean is not None else {},
        unexplained=layout.unexplained,
        outputs=("action", "action_raw", "mean", *(() if absent else (VALUE,))),
        absent={VALUE: absent} if absent else {},
        build=build,
    )


class Policy(Network):
    """Observation groups, an optional CNN and recurrent layer, an MLP, and what its end means."""

    def __init__(
        self,
        layout: Layout,
        activation: str,
        head: str,
        low_high: tuple[float, float],
        images: Mapping[str, Image],
        where: str,
    ) -> None:
        super().__init__()
        self.cnns = nn.ModuleDict(
            {name: encoder(layout.actor.cnns[name], image, where) for name, image in images.items()}
        )
        self.images = images
        self.cell = recurrent(layout.actor.cell, where) if layout.actor.cell else None
        self.mlp = sequence(layout.actor.mlp, activation, where=where)
        self.head, self.low, self.range = head, low_high[0], low_high[1] - low_high[0]
        first = next(each for each in self.mlp if isinstance(each, nn.Linear)).in_features
        width = first if self.cell is None else self.cell.input_size
        self.flat = width - self._encoded()
        self.groups: Mapping[str, int] = {"obs": self.flat}
        self.critic: Critic | None = None
        self.normalized = nn.ModuleDict()

    def _encoded(self) -> int:
        with torch.no_grad():
            return sum(self.cnns[n](p).shape[-1] for n, p in self.pictures().items())

    def pictures(self) -> Tensors:
        """One image of each group that has some."""
        return {name: torch.zeros(1, *image.shape) for name, image in self.images.items()}

    def example(self) -> Tensors:
        vectors = {name: torch.zeros(1, size) for name, size in self.groups.items()}
        own = self.critic.example() if self.critic is not None else {}
        return vectors | self.pictures() | own

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        return start(self.cell) | (self.critic.memory() if self.critic is not None else {})

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        # Vectors come first in the latent, whatever the order of the groups.
        raw = [ports[name] for name in self.groups]
        parts = [
            self.normalized[name](part) if name in self.normalized else part
            for name, part in zip(self.groups, raw, strict=True)
        ]
        parts += [self.cnns[name](ports[name]) for name in self.images]
        latent, after = stepped(self.cell, torch.cat(parts, dim=-1), ports)
        action = self._action(self.mlp(latent))
        if self.critic is not None:
            value, more = self.critic(raw, ports)
            after = {**after, **more, VALUE: value}
        return results(action, wanted, after)

    def _action(self, out: Tensor) -> Tensor:
        if self.head == "deterministic":
            return out
        first, second = out.chunk(2, dim=-1)
        if self.head == "heteroscedastic":
            return first
        alpha = nn.functional.softplus(first) + 1.0
        beta = nn.functional.softplus(second) + 1.0
        return alpha / (alpha + beta) * self.range + self.low


def _split(
    mean: Tensor | None, std: Tensor | None, ports: Mapping[str, int]
) -> dict[str, Normalizer]:
    """The statistics of each port: training normalises its groups side by side."""
    if mean is None or std is None:
        return {}
    sizes = list(ports.values())
    means, stds = (torch.split(each.reshape(-1), sizes) for each in (mean, std))
    parts = zip(ports, means, stds, strict=True)
    return {port: EpsOutsideRoot(mean=m, std=s, eps=EPS) for port, m, s in parts}
