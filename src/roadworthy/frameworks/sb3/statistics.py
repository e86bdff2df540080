"""VecNormalize: its statistics, read without running the pickle that they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.frameworks.files.beginning import ZIP
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.files.pickles import STATISTICS, Record, read_pickle
from roadworthy.frameworks.reading import ASSUMED, BAD_ANSWER, DAMAGED, Answers
from roadworthy.frameworks.spaces import Dict, Space
from roadworthy.spec.transforms import EpsInsideRoot

VECNORMALIZE, NONE = "vecnormalize", "none"


def vecnormalize(
    contents: Contents, answers: Answers, space: Space, default_port: str
) -> Mapping[str, EpsInsideRoot]:
    """Port → its statistics; empty where training used none, or nobody has said it."""
    found = ask_statistics(contents, answers)
    ports = list(space.spaces) if isinstance(space, Dict) else [default_port]
    return {} if found is None else statistics_in(found, ports)


def ask_statistics(contents: Contents, answers: Answers) -> Path | None:
    """The file of the statistics of observations; None where there are none, or nobody said it.

    A VecNormalize that normalises rewards alone is none; the facts say so.
    """
    beside = contents.neighbours.statistics
    path = answers.vecnormalize or beside
    used, said = contents.neighbours.lookup("config.yml", "normalize")
    unused = NONE if str(used).lower() in ("false", "{}") else None
    if answers.unnormalized:
        path, unused, said = None, NONE, ASSUMED
    elif path is not None and answers.assumed(VECNORMALIZE) == NONE:
        raise _refused(path, contents.where, named=path == answers.vecnormalize)

    def read(text: str) -> Path | None:
        if text == NONE:
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
        choices=(NONE,),
        others=("--vecnormalize FILE", "vecnormalize.pkl beside the file"),
    )
    found = answer[0] if answer else None
    if found is not None and not _of_observations(found):
        answers.note("normalizer", f"none: {found.name} normalises rewards alone", found.name)
        return None
    return found


def _refused(path: Path, where: str, *, named: bool) -> UsageError:
    """What is assumed may not set statistics aside that are there."""
    if named:
        return UsageError(
            f"--assume {VECNORMALIZE}={NONE}, and --vecnormalize {path.name}", where=where,
            code=BAD_ANSWER, hint="leave one of them out",
        )  # fmt: skip
    return UsageError(
        f"--assume {VECNORMALIZE}={NONE}, and {path.name} lies beside the file", where=where,
        code=BAD_ANSWER,
        hint="leave the assumption out: the statistics are applied; if they belong to another "
        f"model, move them away, or say --vecnormalize {NONE}",
    )  # fmt: skip


def _of_observations(path: Path) -> bool:
    """Whether the file of a VecNormalize holds statistics of observations, which it may not."""
    return bool(_record(path).get("norm_obs", True))


def _record(path: Path) -> Record:
    data = path.read_bytes()
    if data.startswith(ZIP):
        raise UsageError(
            "this is the model, or another archive: no statistics of VecNormalize",
            where=path.name, code=DAMAGED,
            hint="pass the file that VecNormalize.save wrote: --vecnormalize vecnormalize.pkl",
        )  # fmt: skip
    found = read_pickle(data, where=path.name, records=STATISTICS)
    if not isinstance(found, Record) or not found.kind.endswith(".VecNormalize"):
        raise UsageError("this is no VecNormalize", where=path.name, code=DAMAGED,
                         hint="pass the file that VecNormalize.save wrote")  # fmt: skip
    return found


def statistics_in(path: Path, ports: Sequence[str]) -> dict[str, EpsInsideRoot]:
    """Port → statistics, from the file of a VecNormalize; the first port where they have none."""
    found = _record(path)
    if not found.get("norm_obs", True):
        return {}
    statistics = found.get("obs_rms")
    each = statistics if isinstance(statistics, Mapping) else {ports[0]: statistics}
    wanted = found.get("norm_obs_keys") or list(each)
    unknown = [name for name in wanted if name not in ports or name not in each]
    if unknown:
        raise UsageError(
            f"it normalises {unknown[0]!r}, which the policy does not see", where=path.name,
            hint=f"the policy sees {', '.join(ports)}: is it the statistics of another run?",
        )  # fmt: skip
    eps, clip = float(found.get("epsilon", 1e-8)), float(found.get("clip_obs", 10.0))
    return {name: _formula(each[name], eps, clip, path.name) for name in wanted}


def misfit(shape: tuple[int, ...], row: tuple[int, ...], where: str, frames: int | None) -> None:
    """An error for statistics that have another shape than the observation `row`."""
    if shape == row:
        return
    flat = len(shape) == len(row) == 1 and min(*shape, *row) > 0
    if frames is None and flat and row[0] > shape[0] and row[0] % shape[0] == 0:
        count = row[0] // shape[0]
        hint = (
            f"if {count} observations were stacked behind VecNormalize: --frame-stack {count} "
            f"(frame_stack={count}); if not, these belong to another model"
        )
    elif frames is not None and flat and shape[0] == row[0] * frames:
        hint = "they were taken behind the frame stack: leave frame_stack out"
    else:
        hint = "they belong to another model: pass the statistics that were saved with this one"
    raise UsageError(
        f"the statistics have the shape {shape}, the observation {row}",
        where=where, code=DAMAGED, hint=hint,
    )  # fmt: skip


def _formula(statistics: object, eps: float, clip: float, where: str) -> EpsInsideRoot:
    if not isinstance(statistics, Record):
        raise UsageError("its statistics cannot be read", where=where, code=DAMAGED)
    mean, var = np.asarray(statistics.get("mean")), np.asarray(statistics.get("var"))
    if mean.dtype.kind != "f" or var.dtype.kind != "f":
        raise UsageError(f"its statistics are {mean.dtype}, expected floating-point numbers",
                         where=where, code=DAMAGED)  # fmt: skip
    return EpsInsideRoot(mean=mean, var=var, eps=eps, clip=clip)
