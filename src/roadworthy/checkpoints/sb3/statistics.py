"""VecNormalize: its statistics, read without running the pickle that they are in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from roadworthy.checkpoints.opening import Contents
from roadworthy.checkpoints.pickles import STATISTICS, Record, read_pickle
from roadworthy.checkpoints.reading import DAMAGED, Answers
from roadworthy.checkpoints.spaces import Dict, Space
from roadworthy.errors import UsageError
from roadworthy.spec.transforms import EpsInsideRoot

VECNORMALIZE = "vecnormalize"


def vecnormalize(
    contents: Contents, answers: Answers, space: Space, default_port: str
) -> Mapping[str, EpsInsideRoot]:
    """Port → its statistics; empty where training used none, or nobody has said it."""
    found = ask_statistics(contents, answers)
    return {} if found is None else read_statistics(found, space, default_port)


def ask_statistics(contents: Contents, answers: Answers) -> Path | None:
    """The file of the statistics; None where training used none, or nobody has said it."""
    beside = contents.neighbours.statistics
    path = answers.vecnormalize or beside
    used, said = contents.neighbours.lookup("config.yml", "normalize")
    unused = "none" if str(used).lower() in ("false", "{}") else None

    def read(text: str) -> Path | None:
        if text == "none":
            return None
        if path is None or text != path.name:
            raise KeyError(text)
        return path

    answer = answers.ask(
        VECNORMALIZE,
        "whether training normalised the observations (VecNormalize); the statistics are saved in "
        "a file of their own",
        read=lambda text: (read(text),),
        found=[
            (path.name if path else None, "beside the file" if path == beside else "named by you"),
            (unused, said),
        ],
        choices=("none",),
        others=("--vecnormalize FILE", "vecnormalize.pkl beside the file"),
    )
    return answer[0] if answer else None


def read_statistics(path: Path, space: Space, default_port: str) -> dict[str, EpsInsideRoot]:
    """Port → statistics, from the file of a VecNormalize."""
    found = read_pickle(path.read_bytes(), where=path.name, records=STATISTICS)
    if not isinstance(found, Record) or found.get("obs_rms", found) is found:
        raise UsageError("this is no VecNormalize", where=path.name, code=DAMAGED,
                         hint="pass the file that VecNormalize.save wrote")  # fmt: skip
    if not found.get("norm_obs", True):
        return {}
    statistics = found.get("obs_rms")
    each = statistics if isinstance(statistics, Mapping) else {default_port: statistics}
    wanted = found.get("norm_obs_keys") or list(each)
    ports = space.spaces if isinstance(space, Dict) else {default_port: space}
    unknown = [name for name in wanted if name not in ports or name not in each]
    if unknown:
        raise UsageError(
            f"it normalises {unknown[0]!r}, which the policy does not see", where=path.name,
            hint=f"the policy sees {', '.join(ports)}: is it the statistics of another run?",
        )  # fmt: skip
    eps, clip = float(found.get("epsilon", 1e-8)), float(found.get("clip_obs", 10.0))
    return {name: _formula(each[name], eps, clip, path.name) for name in wanted}


def _formula(statistics: object, eps: float, clip: float, where: str) -> EpsInsideRoot:
    if not isinstance(statistics, Record):
        raise UsageError("its statistics cannot be read", where=where, code=DAMAGED)
    mean, var = np.asarray(statistics.get("mean")), np.asarray(statistics.get("var"))
    if mean.dtype.kind != "f" or var.dtype.kind != "f":
        raise UsageError(f"its statistics are {mean.dtype}, expected floating-point numbers",
                         where=where, code=DAMAGED)  # fmt: skip
    return EpsInsideRoot(mean=mean, var=var, eps=eps, clip=clip)
