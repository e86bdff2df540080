"""A policy described on the command line: what export, doctor, verify and inspect ask of it."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.api.options import option
from roadworthy.capture.versions import refuse_untested
from roadworthy.cli.objects import refuse_missing, refuse_unreachable, resolve, thing
from roadworthy.errors import UsageError, did_you_mean, need
from roadworthy.frameworks import EXPLORATIONS
from roadworthy.spec.port import DTYPES

if TYPE_CHECKING:
    import torch

_INPUT = re.compile(r"(?P<name>[^=]+)=(?:(?P<dtype>[a-z]+\d*):)?(?P<shape>(?:\d+(?:,\d+)*)?)")
# Options of the form NAME=VALUE: option → an example.
_PAIRS = {
    "--memory": "h=hidden", "--set": "frame_stack=4", "--constant": "deterministic=True",
    "--assume": "activation=elu",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is said about a policy, as words; `keywords` are those that `rw.export` is given."""

    inputs: list[str] | None = option(
        "--input", help="NAME=SHAPE of one row: obs=48, image=uint8:84,84,4"
    )
    memory: list[str] | None = option("--memory", help="NAME=attribute that persists: h=hidden")
    outputs: list[str] | None = option("--output", help="Name of a result; - leaves it out.")
    exploration: str | None = option(
        help="TorchRL: deterministic, mode, mean, or random (noise becomes an input)."
    )
    env: str | None = option(
        help="What a policy sees: file.py:make_env; of a checkpoint, a Gymnasium id."
    )
    settings: list[str] | None = option(
        "--set", help="NAME=VALUE: a keyword of the framework's adapter; again for more."
    )
    ignore: list[str] | None = option(help="What persists between calls and does not matter: steps")
    method: str | None = option(help="What acts, where it is not forward: act_inference")
    constants: list[str] | None = option(
        "--constant", help="NAME=VALUE: an argument that never changes: deterministic=True"
    )
    assume: list[str] | None = option(
        help="NAME=VALUE: what a checkpoint does not say: activation=elu"
    )
    vecnormalize: Path | None = option(help="The file of VecNormalize's statistics.")
    frame_stack: int | None = option(help="A checkpoint trained on so many observations at once.")
    more: str | None = option("--outputs", help="Of a checkpoint, besides the action: value,logits")
    trust: bool = option(
        "--trust", help="Let the installed framework unpickle the checkpoint.", default=False
    )

    def refuse_unreadable(self) -> None:
        """An error for an option that cannot be read: in time, before PyTorch is imported."""
        for text in self.inputs or ():
            _shape(text)
        _pairs(self.memory, "--memory")
        if self.exploration is not None and self.exploration.lower() not in EXPLORATIONS:
            raise UsageError(
                f"--exploration {self.exploration!r} is not known",
                code="RW141",
                hint=did_you_mean(self.exploration, EXPLORATIONS),
            )
        if self.env is not None:
            refuse_unreachable(self.env, file=False)
        for words, name in ((self.settings, "--set"), (self.constants, "--constant")):
            for _, value in _pairs(words, name):
                if ".py:" in value:
                    refuse_unreachable(value)
        _pairs(self.assume, "--assume")

    def keywords(self) -> dict[str, Any]:
        """What was said, as `rw.export` takes it; nothing for what was not said."""
        env = self.env
        given = {
            "example": dict(example(text) for text in self.inputs or ()) or None,
            "memory": dict(_pairs(self.memory, "--memory")) or None,
            "outputs": [None if name == "-" else name for name in self.outputs or ()] or None,
            "ignore": self.ignore or None,
            "method": self.method,
            "constants": _values(self.constants, "--constant") or None,
            "exploration": self.exploration,
            "env": resolve(env) if env is not None and ".py:" in env else env,
            **_values(self.settings, "--set"),
            **self.answers(),
        }
        return {name: value for name, value in given.items() if value is not None}

    def answers(self) -> dict[str, Any]:
        """What was said about a checkpoint alone."""
        given = {
            "assume": dict(_pairs(self.assume, "--assume")) or None,
            "vecnormalize": self.vecnormalize,
            "frame_stack": self.frame_stack,
            "outputs": [name for name in (self.more or "").split(",") if name] or None,
            "trust": self.trust or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTask:
    """A registered task of a framework, and a policy trained for it, in place of a source."""

    task: str | None = option(help="A task of mjlab, in place of SOURCE.")
    checkpoint: Path | None = option(help="The policy of the task: model_1500.pt.")
    motion_file: Path | None = option(help="The motion of a task that tracks one.")

    def refuse_unclear(self, source: str | None) -> None:
        """An error unless either a source or a task with its checkpoint is given, and is there."""
        if (source is None) == (self.task is None):
            raise UsageError(
                "expected SOURCE or --task, got " + ("neither" if source is None else "both"),
                hint="roadworthy export my_policy.py:actor …, or roadworthy export --task NAME "
                "--checkpoint model.pt …",
            )
        if (self.task is None) != (self.checkpoint is None):
            raise UsageError(
                "--task and --checkpoint belong together",
                hint="--task Mjlab-Velocity-Flat-Unitree-Go1 --checkpoint model_1500.pt",
            )
        for path in (self.checkpoint, self.motion_file):
            if path is not None:
                refuse_missing(path)

    def loaded(self, source: str | None) -> tuple[Any, dict[str, Any]]:
        """What is exported, the environment of the task as it is played, and keywords with it."""
        if source is not None:
            return thing(source), {}
        from roadworthy.frameworks.mjlab.tasks import environment_of

        assert self.task is not None
        motion = None if self.motion_file is None else str(self.motion_file)
        keywords = {"actor": self.checkpoint, "task": self.task}
        return environment_of(self.task, motion), keywords


def need_export() -> None:
    """An error unless all that an export needs is installed, in versions that were tested."""
    with suppress(PackageNotFoundError):  # said below
        refuse_untested()  # by the labels of the packages: nothing is imported
    for module in ("torch", "onnx", "onnxscript"):
        need(module, extra="export")


def example(text: str) -> tuple[str, torch.Tensor]:
    """Name and example of an input, from `NAME=SHAPE`."""
    import torch

    name, dtype, shape = _shape(text)
    return name, torch.zeros(2, *shape, dtype=getattr(torch, dtype))


def _shape(text: str) -> tuple[str, str, list[int]]:
    """Name, dtype and sizes of one row, from `NAME=SHAPE`."""
    match = _INPUT.fullmatch(text)
    dtype = (match["dtype"] or "float32") if match else ""
    if match is None or dtype not in DTYPES:
        raise UsageError(
            f"cannot read --input {text!r}",
            hint="write NAME=SHAPE of one row: obs=48, image=uint8:84,84,4, or step=int64: for a "
            "scalar",
        )
    return match["name"], dtype, [int(size) for size in match["shape"].split(",") if size]


def _pairs(given: list[str] | None, flag: str) -> list[tuple[str, str]]:
    """Name and value of each word of an option that takes `NAME=VALUE`."""
    pairs = []
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            hint = f"write NAME=VALUE, such as {_PAIRS[flag]}"
            raise UsageError(f"cannot read {flag} {text!r}", hint=hint)
        pairs.append((name, value))
    return pairs


def _values(given: list[str] | None, flag: str) -> dict[str, Any]:
    """Python values where they read as such, `file.py:name`, or text."""
    return {name: _value(text) for name, text in _pairs(given, flag)}


def _value(text: str) -> Any:
    if ".py:" in text:
        return resolve(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
