"""What stands between the observations of an environment and a Stable-Baselines3 model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.errors import Finding, UsageError
from roadworthy.frameworks.reading import OPEN_QUESTION
from roadworthy.frameworks.sb3.statistics import misfit, statistics_in
from roadworthy.frameworks.sb3.wrappers import NORMALIZING, chain_of, changing, statistics_inside
from roadworthy.frameworks.spaces import OBS, ports_of
from roadworthy.spec.transforms import EpsInsideRoot

NONE = "none"
OTHER_WRAPPERS = "RW196"
ASKED = (
    "vecnormalize='vecnormalize.pkl' (or a VecNormalize), or vecnormalize='none' if there was none"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Around:
    """What is applied before a model, and the observation in front of it.

    space         the observation that goes in
    normalizer    what is done to it, as a `Source` takes it
    vecnormalize  the VecNormalize that does the same itself, where there is one
    frames        how many observations the model sees at once, where the port takes one
    keywords      what says all this again: "vecnormalize='none'"
    """

    space: Any
    normalizer: Any = None
    vecnormalize: Any = None
    frames: int | None = None
    keywords: str = ""
    notes: tuple[Finding, ...] = ()


def around(model: Any, vecnormalize: Any, normalizer: Any, frame_stack: int | None) -> Around:
    """What the user says of a model, or else its environment; an error where nobody knows."""
    env = model.get_env()
    chain = chain_of(env)
    kinds = [type(each).__name__ for each in chain]
    if vecnormalize is not None and normalizer is not None:
        raise UsageError("vecnormalize= and normalizer= say the same thing twice",
                         hint="leave one of them out")  # fmt: skip
    said = vecnormalize is not None or normalizer is not None
    if env is None and not said:
        raise UsageError(
            "vecnormalize: whether training normalised the observations; a model without its "
            "environment does not say it",
            where=type(model).__name__, code=OPEN_QUESTION, hint=ASKED,
        )  # fmt: skip
    space = model.observation_space
    if "VecTransposeImage" in kinds:
        space = chain[kinds.index("VecTransposeImage")].venv.observation_space
    own: Any = None  # a VecNormalize
    if not said and "VecNormalize" in kinds:
        own = chain[kinds.index("VecNormalize")]
    elif not said:
        inside = statistics_inside(chain, type(model).__name__)
        if inside is not None:
            normalizer, space = {OBS: inside.formula}, inside.space
    elif isinstance(vecnormalize, (str, os.PathLike)) and str(vecnormalize) != NONE:
        normalizer = _from_file(Path(vecnormalize), space)
    elif vecnormalize is not None and str(vecnormalize) != NONE:
        own = vecnormalize
    formulas = normalizer if own is None else _formulas(own, list(ports_of(space)))
    frames = frame_stack
    if not said and own is not None and formulas and "VecFrameStack" in kinds:
        outside = kinds.index("VecFrameStack") < kinds.index("VecNormalize")
        frames = _count(own.observation_space, space) if outside else frame_stack
    if frames is not None:
        space = _one_of(space, frames)
    if isinstance(formulas, Mapping):
        _refuse_misfit(formulas, space, type(model).__name__, frames)
    return Around(
        space=space,
        normalizer=formulas or None,
        vecnormalize=own if formulas else None,
        frames=frames,
        keywords=_keywords(vecnormalize, frame_stack, other=normalizer is not None and said),
        notes=tuple(_notes(chain, type(model).__name__, applied=not said)),
    )


def _from_file(path: Path, space: Any) -> dict[str, EpsInsideRoot]:
    if not path.is_file():
        raise UsageError(f"{path} does not exist", where="vecnormalize", hint=ASKED)
    return statistics_in(path, list(ports_of(space)))


def _formulas(wrapper: Any, names: list[str]) -> dict[str, EpsInsideRoot]:
    """Port → what a VecNormalize does to it."""
    if not hasattr(wrapper, "normalize_obs"):
        raise UsageError(
            f"vecnormalize= is a {type(wrapper).__name__}, expected a VecNormalize or its file",
            hint=ASKED,
        )
    if not wrapper.norm_obs:
        return {}
    running = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {names[0]: wrapper.obs_rms}
    return {
        name: EpsInsideRoot(
            mean=np.asarray(each.mean), var=np.asarray(each.var),
            eps=float(wrapper.epsilon), clip=float(wrapper.clip_obs),
        )
        for name, each in running.items()
    }  # fmt: skip


def _count(one: Any, stack: Any) -> int:
    """How many observations a VecFrameStack puts side by side."""
    flat = len(one.shape or ()) == 1 and len(stack.shape or ()) == 1
    if not flat or stack.shape[0] % one.shape[0]:
        raise UsageError(
            f"VecFrameStack around VecNormalize: of observations {one} the stack is not rebuilt",
            where="VecFrameStack",
            hint="vecnormalize='none' exports the model as it stands: it then takes the stack of "
            "normalised observations",
        )
    return int(stack.shape[0] // one.shape[0])


def _one_of(space: Any, frames: int) -> Any:
    """The newest of the observations in a stack."""
    if len(getattr(space, "shape", None) or ()) != 1 or space.shape[0] % frames or frames < 2:
        raise UsageError(
            f"the model sees {space}, which is no stack of {frames} vectors", where="frame_stack",
            hint="leave frame_stack out: the port then takes what the model sees",
        )  # fmt: skip
    low = _of_one(space.low, frames, np.min(space.low))
    high = _of_one(space.high, frames, np.max(space.high))
    return type(space)(low=low, high=high, dtype=space.dtype)


def _of_one(limits: Any, frames: int, widest: Any) -> Any:
    """The limits of one observation in a stack; where they cannot be told, the widest."""
    spaced = limits[::frames]  # VecFrameStack repeats each limit, and not the row of them
    if np.array_equal(np.repeat(spaced, frames), limits):
        return spaced
    row = limits[: limits.shape[0] // frames]
    return row if np.array_equal(np.tile(row, frames), limits) else np.full_like(row, widest)


def _refuse_misfit(formulas: Mapping[str, Any], space: Any, where: str, frames: int | None) -> None:
    ports = ports_of(space)
    for port, each in formulas.items():
        if isinstance(each, EpsInsideRoot) and port in ports:
            misfit(np.shape(each.mean), tuple(ports[port].shape), f"{where}: {port}", frames)


def _keywords(vecnormalize: Any, frame_stack: int | None, *, other: bool) -> str:
    said = []
    if vecnormalize is not None:
        text = isinstance(vecnormalize, (str, os.PathLike))
        said.append(f"vecnormalize={str(vecnormalize)!r}" if text else "vecnormalize=vecnormalize")
    elif other:
        said.append("normalizer=normalizer")
    if frame_stack is not None:
        said.append(f"frame_stack={frame_stack}")
    return ", ".join(said)


def _notes(chain: list[Any], where: str, *, applied: bool) -> list[Finding]:
    """A warning that names the wrappers whose work is not part of the artifact."""
    seen, acted = changing(chain)
    if applied:
        seen = [name for name in seen if name not in NORMALIZING]
    found = []
    if seen:
        found.append(Finding(
            code=OTHER_WRAPPERS, where=where, severity="warning",
            what=f"its environment changes what it sees ({', '.join(seen)}): the artifact takes "
            "observations as they come out of that",
            hint="do the same before the artifact is called; statistics: "
            "normalizer=rw.EpsInsideRoot(mean=…, var=…, eps=…)",
        ))  # fmt: skip
    if acted:
        found.append(Finding(
            code=OTHER_WRAPPERS, where=where, severity="warning",
            what=f"its environment changes its actions ({', '.join(acted)}): the artifact gives "
            "them as they go into that",
            hint="do the same to what the artifact gives",
        ))  # fmt: skip
    return found
