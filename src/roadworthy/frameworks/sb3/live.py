"""Stable-Baselines3: a model, whose policy is captured and whose `predict` is the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from roadworthy.frameworks.naming import named_after
from roadworthy.frameworks.sb3.around import around
from roadworthy.frameworks.sb3.oracle import Predict
from roadworthy.frameworks.sb3.step import MASKS, Step
from roadworthy.frameworks.spaces import about_of, action_of
from roadworthy.source import Rewriting, Source
from roadworthy.spec.port import About


def describe(
    model: Any,
    *,
    vecnormalize: Any = None,
    normalizer: Any = None,
    frame_stack: int | None = None,
    about: Mapping[str, About] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
) -> Source:
    """The source of a model: what `model.predict(obs, deterministic=True)` answers.

    vecnormalize  the VecNormalize that it was trained behind, or its file; "none" where there was
                  none. Left out, the environment of the model says it, and a model that has no
                  environment is asked about
    normalizer    the statistics of another normaliser: rw.EpsInsideRoot(mean=…, var=…, eps=…)
    frame_stack   it was trained on so many observations at once; the port then takes one
    """
    met = around(model, vecnormalize, normalizer, frame_stack)
    step = named_after(model, Step)(model, met.space, met.frames)
    stated = {name: about_of(space) for name, space in step.spaces.items()}
    source = Source(
        step,
        example=step.example(),
        memory=step.start(),
        normalizer=met.normalizer,
        about={**stated, **dict(about or {})},
        meaning=action_of(model.action_space),
        batch=batch,
        period_s=period_s,
        ignore=ignore,
    )
    # A VecNormalize normalises itself; of the others only the formula is known.
    mask = MASKS if step.choices else None
    truth = Predict(model, met.vecnormalize, alone=step.alone, mask=mask)
    alone = None if met.vecnormalize is None else replace(source, module=truth, normalizer=None)
    rewriting = Rewriting(truth, keywords=met.keywords, alone=alone, notes=met.notes)
    return replace(source, rewritten=rewriting)
