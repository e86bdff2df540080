"""A policy described on the command line: the options that export, doctor and verify share."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.capture.versions import refuse_untested
from roadworthy.cli.objects import refuse_unreachable, resolve
from roadworthy.errors import UsageError, did_you_mean, need
from roadworthy.frameworks import EXPLORATIONS
from roadworthy.spec.port import DTYPES

if TYPE_CHECKING:
    import torch

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="NAME=SHAPE of one row: obs=48, image=uint8:84,84,4"),
]
Memories = Annotated[
    list[str] | None, typer.Option("--memory", help="NAME=attribute that persists: h=hidden")
]
Outputs = Annotated[
    list[str] | None, typer.Option("--output", help="Name of a result; - leaves it out.")
]
Ignored = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="What persists between calls and does not matter: steps"),
]
Method = Annotated[
    str | None,
    typer.Option("--method", help="What acts, where it is not forward: act_inference"),
]
Constants = Annotated[
    list[str] | None,
    typer.Option(
        "--constant", help="NAME=VALUE: an argument that never changes: deterministic=True"
    ),
]

Exploration = Annotated[
    str | None,
    typer.Option(help="TorchRL: deterministic, mode, mean, or random (noise becomes an input)."),
]
FrameworkEnv = Annotated[
    str | None,
    typer.Option(
        "--env", help="What a policy sees: file.py:make_env; of a checkpoint, a Gymnasium id."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="NAME=VALUE: a keyword of the framework's adapter; again for more."),
]

Assumed = Annotated[
    list[str] | None,
    typer.Option("--assume", help="NAME=VALUE: what a checkpoint does not say: activation=elu"),
]
Statistics = Annotated[
    Path | None, typer.Option("--vecnormalize", help="The file of VecNormalize's statistics.")
]
FrameStack = Annotated[
    int | None,
    typer.Option("--frame-stack", help="A checkpoint trained on so many observations at once."),
]
MoreOutputs = Annotated[
    str | None,
    typer.Option("--outputs", help="Of a checkpoint, besides the action: value,logits"),
]
TrustFile = Annotated[
    bool,
    typer.Option("--trust", help="Let the installed framework unpickle the checkpoint."),
]

_INPUT = re.compile(r"(?P<name>[^=]+)=(?:(?P<dtype>[a-z]+\d*):)?(?P<shape>(?:\d+(?:,\d+)*)?)")


def keywords(
    inputs: Inputs,
    memory: Memories,
    outputs: Outputs,
    exploration: Exploration = None,
    env: FrameworkEnv = None,
    settings: Settings = None,
    ignore: Ignored = None,
    method: Method = None,
    constants: Constants = None,
) -> dict[str, Any]:
    """What was said, as `rw.export` takes it; nothing for what was not said."""
    said = {
        "example": dict(example(each) for each in inputs) if inputs else None,
        "memory": dict(pair(each, "--memory", "h=hidden") for each in memory) if memory else None,
        "outputs": [None if name == "-" else name for name in outputs] if outputs else None,
        "ignore": ignore or None,
        "method": method,
        "constants": _pairs(constants, "--constant", "deterministic=True") or None,
        "exploration": exploration,
        "env": None if env is None else _environment(env),
        **framework_keywords(settings),
    }
    return {name: value for name, value in said.items() if value is not None}


def checkpoint_keywords(
    assume: Assumed,
    vecnormalize: Statistics,
    frame_stack: FrameStack,
    outputs: MoreOutputs = None,
    trust: bool = False,
) -> dict[str, Any]:
    """What was said about a checkpoint, as `rw.export` takes it."""
    said = {
        "assume": dict(pair(each, "--assume", "activation=elu") for each in assume or ()) or None,
        "vecnormalize": vecnormalize,
        "frame_stack": frame_stack,
        "outputs": [name for name in (outputs or "").split(",") if name] or None,
        "trust": trust or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _environment(text: str) -> Any:
    """What `--env` names: an object in a file, or the id of an environment, as it is."""
    return resolve(text) if ".py:" in text else text


def framework_keywords(settings: Settings) -> dict[str, Any]:
    """The keywords of `--set`: Python values where they read as such, `file.py:name`, or text."""
    return _pairs(settings, "--set", "frame_stack=4")


def _pairs(said: list[str] | None, option: str, such_as: str) -> dict[str, Any]:
    pairs = [pair(each, option, such_as) for each in said or ()]
    return {name: _value(text) for name, text in pairs}


def _value(text: str) -> Any:
    if ".py:" in text:
        return resolve(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def refuse_unreadable(
    inputs: Inputs = None,
    memory: Memories = None,
    exploration: Exploration = None,
    env: FrameworkEnv = None,
    settings: Settings = None,
    constants: Constants = None,
) -> None:
    """An error for an option that cannot be read: in time, before PyTorch is imported."""
    for each in inputs or ():
        _shape(each)
    for each in memory or ():
        pair(each, "--memory", "h=hidden")
    if exploration is not None and exploration.lower() not in EXPLORATIONS:
        raise UsageError(
            f"--exploration {exploration!r} is not known",
            code="RW141",
            hint=did_you_mean(exploration, EXPLORATIONS),
        )
    if env is not None:
        refuse_unreachable(env, file=False)
    for said, option, such_as in (
        (settings, "--set", "frame_stack=4"),
        (constants, "--constant", "deterministic=True"),
    ):
        for each in said or ():
            _, value = pair(each, option, such_as)
            if ".py:" in value:
                refuse_unreachable(value)


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


def pair(text: str, option: str, such_as: str) -> tuple[str, str]:
    """Name and value of an option that takes `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(
            f"cannot read {option} {text!r}", hint=f"write NAME=VALUE, such as {such_as}"
        )
    return name, value
