"""A checkpoint of any known framework as a source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roadworthy.capture.source import Rewriting, Source
from roadworthy.errors import UsageError
from roadworthy.frameworks import adapter_for, framework_of, read_checkpoint
from roadworthy.frameworks.files.opening import Contents, open_checkpoint
from roadworthy.frameworks.reading import NEEDS_TRUST, UNKNOWN_VERSION, Answers, Reading
from roadworthy.frameworks.spaces import environment
from roadworthy.spec.port import About

# Said instead of a file: the policy saw observations as they are.
UNNORMALIZED = "none"


def describe(
    path: Path,
    *,
    env: Any = None,
    assume: Mapping[str, object] | None = None,
    vecnormalize: str | os.PathLike[str] | None = None,
    frame_stack: int | None = None,
    trust: bool = False,
    outputs: Sequence[str] | None = None,
    about: Mapping[str, About] | None = None,
    period_s: float | None = None,
) -> Source:
    """The source of the policy in a checkpoint.

    env           a Gymnasium id, or what makes an environment: its spaces answer questions
    assume        name of a question → its answer; recorded in the manifest as assumed
    vecnormalize  the file of the statistics, where they do not lie beside the checkpoint; "none"
                  where those beside it are not this policy's
    frame_stack   the policy was trained on so many observations at once; the port then takes one
    trust         unpickle what cannot be read otherwise, with the installed framework
    outputs       besides the action: "action_raw", "value", "logits" or "mean"
    """
    contents = open_checkpoint(path, trust=trust)
    answers = answers_from(env, assume, vecnormalize, frame_stack, outputs or ())
    try:
        reading = read_checkpoint(contents, answers)
    except UsageError as error:
        if not trust or all(finding.code != NEEDS_TRUST for finding in error.findings):
            raise
        answers = answers_from(env, assume, vecnormalize, frame_stack)
        source = _loaded(contents, answers, error, ["outputs"] if outputs else [])
        return replace(
            source,
            about={**source.about, **(about or {})},
            period_s=source.period_s if period_s is None else period_s,
            frame_skip=answers.env.frame_skip if answers.env else None,
        )
    wanted = [reading.outputs[0], *(o for o in outputs or () if o != reading.outputs[0])]
    source = reading.source(wanted, path.name)
    truth: Source | str | None = None
    if trust:
        if len(wanted) > 1:
            raise UsageError(
                f"predict gives the action alone, not {', '.join(wanted[1:])}",
                where="trust",
                hint="leave the other outputs out, or compare without --trust",
            )
        truth = framework_of(contents).predicting(contents, answers, source)
    return replace(
        source,
        about={**source.about, **(about or {})},
        period_s=source.period_s if period_s is None else period_s,
        frame_skip=answers.env.frame_skip if answers.env else None,
        origin={
            **_origin(reading, answers, wanted),
            **({"not_asked": truth} if isinstance(truth, str) else {}),
        },
        rewritten=Rewriting(truth.module, keywords="trust=True", alone=truth)
        if isinstance(truth, Source)
        else None,
    )


def _loaded(
    contents: Contents, answers: Answers, error: UsageError, refused: Sequence[str]
) -> Source:
    """The source of what the installed framework loads, where the file alone does not do."""
    found = framework_of(contents).loaded(contents, answers)
    row = None if found is None else adapter_for(found.model)
    if found is None or row is None:
        raise error
    answers.refuse_unasked()
    if refused:
        raise UsageError(
            f"{error.findings[0].what}: of such a policy only the framework knows more",
            where=refused[0],
            hint=f"leave out {' and '.join(refused)}",
        )
    if found.questions:
        raise UsageError(findings=[each.finding(contents.where) for each in found.questions])
    made = row.load()(found.model, **found.keywords)
    assert isinstance(made, Source)
    facts = [{"name": f.name, "value": f.value, "source": f.source} for f in found.facts]
    origin = {
        "framework": found.framework, "version": found.version or UNKNOWN_VERSION,
        "algorithm": found.algorithm, "architecture": error.findings[0].what, "facts": facts,
        "keywords": _said(answers),
    }  # fmt: skip
    return replace(made, origin=origin)


def answers_from(
    env: Any = None,
    assume: Mapping[str, object] | None = None,
    vecnormalize: str | os.PathLike[str] | None = None,
    frame_stack: int | None = None,
    outputs: Sequence[str] = (),
) -> Answers:
    """All that the user said about a checkpoint."""
    if frame_stack is not None and frame_stack < 2:
        raise UsageError(
            f"a stack of {frame_stack} observations is none",
            where="frame_stack",
            hint="leave it out, or give the number that training stacked: 4",
        )
    unnormalized = str(vecnormalize) == UNNORMALIZED
    statistics = None if vecnormalize is None or unnormalized else Path(vecnormalize)
    if statistics is not None and not statistics.is_file():
        raise UsageError(f"{statistics} does not exist", where="vecnormalize", hint="the file that "
                         f"VecNormalize.save wrote, or {UNNORMALIZED}")  # fmt: skip
    return Answers(
        assume,
        env=None if env is None else environment(env),
        vecnormalize=statistics,
        unnormalized=unnormalized,
        frame_stack=frame_stack,
        outputs=outputs,
    )


def _origin(reading: Reading, answers: Answers, wanted: Sequence[str]) -> dict[str, Any]:
    """What the manifest keeps: enough to read the same file in the same way again."""
    more = {"outputs": list(wanted[1:])} if len(wanted) > 1 else {}
    return {**reading.to_json(), "keywords": {**_said(answers), **more}}


def _said(answers: Answers) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if answers.answered:
        said["assume"] = dict(answers.answered)
    if answers.unnormalized:
        said["vecnormalize"] = UNNORMALIZED
    if answers.frame_stack is not None:
        said["frame_stack"] = answers.frame_stack
    return said
