"""From a TorchRL policy to a source: keys become ports, hidden states memory, draws noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import InteractionType, TensorDictModuleBase
from torch import Tensor, nn
from torchrl.envs import EnvBase

from roadworthy.capture.source import Rewriting, Source
from roadworthy.errors import ExportError, Finding, RoadworthyError, UsageError
from roadworthy.errors.lines import user_line
from roadworthy.frameworks.torchrl import draws, specs
from roadworthy.frameworks.torchrl.distributions import DistributionHead
from roadworthy.frameworks.torchrl.keys import find_collisions, port_name
from roadworthy.frameworks.torchrl.plan import (
    PortPlan,
    action_key,
    persisting_names,
    plan_ports,
    read_keys,
)
from roadworthy.frameworks.torchrl.policy_stages import (
    exploration_questions,
    interaction_type_of,
    policy_stages,
)
from roadworthy.frameworks.torchrl.stage import Stage
from roadworthy.frameworks.torchrl.step import Step, Wiring
from roadworthy.frameworks.torchrl.transforms import TransformStages
from roadworthy.frameworks.torchrl.transforms import stages as transform_stages
from roadworthy.inspection.snapshot import preserved
from roadworthy.runtime.gym.frame_skip import frame_skip_of
from roadworthy.spec.port import About
from roadworthy.spec.transforms import ActionStep, Normalizer

_ROWS = (3, 4)


def describe(
    policy: TensorDictModuleBase,
    *,
    example: TensorDictBase | Mapping[Any, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    normalizer: Normalizer | nn.Module | Mapping[str, Any] | None = None,
    outputs: Sequence[Any] | None = None,
    action: ActionStep | Sequence[ActionStep] = (),
    about: Mapping[str, About] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
    exploration: str | None = None,
    env: EnvBase | None = None,
    transforms: Any = None,
    table: Sequence[str | int] = (),
) -> Source:
    """The source of a TorchRL policy, for `rw.export` and for `rw.verify(…, against=…)`.

    example      a TensorDict or a dict with the inputs, where no `env` is given
    memory       name → initial value of one row, for hidden states that TorchRL does not know
    outputs      keys to give; left out, the action
    about        port name → description, unit, limits: said over what the specs state
    dynamic      port name → {axis: name} for sizes that vary besides the batch
    exploration  "deterministic", "mode", "mean" or "random"; asked for where the policy draws
    env          the environment it acts in: its specs give the example and the limits, its
                 transforms are exported in front of the policy and behind it
    transforms   other transforms than those of `env`; () for none
    table        what each index of a discrete action means
    """
    interaction_type = interaction_type_of(exploration)
    core = policy_stages(policy, interaction_type)
    around = _transforms_around(core, env, transforms)
    before, behind = around.observation, around.action
    # With transforms in the artifact, what goes in is what the bare environment gives.
    bare = getattr(env, "base_env", env) if before or behind else env
    started = _primed_memory(core, around) | dict(memory or {})
    # Draws are matched by their order, so a policy that draws is kept whole.
    random = interaction_type is InteractionType.RANDOM
    plan = plan_ports([*before, *core, *behind], outputs, bare, started, whole=random)
    values, missing = specs.examples(plan.inputs, example, bare)
    findings = [
        *([] if interaction_type else exploration_questions(policy)),
        *plan.findings,
        *find_collisions(plan.inputs),
        *find_collisions(plan.outputs),
        *missing,
    ]
    if findings:
        raise UsageError(findings=findings)
    # Hidden states and noise start with one row, and so does what they go together with.
    tensors = {
        port_name(key): value if batch or not value.ndim else value[:1]
        for key, value in values.items()
    }
    wiring = plan.wiring(specs.groups(plan.inputs, example, bare))
    original = [*before, *_original_stages(policy, core, plan), *behind]
    sides = (plan.stages, original)
    wiring = _with_noise(policy, sides, wiring, interaction_type, tensors | dict(plan.initial))
    spec = specs.action_spec(policy, plan.outputs[0], bare if behind else None, env)
    first = port_name(plan.outputs[0])
    stated = specs.abouts(plan.inputs, bare) | specs.about_action(first, spec, action)
    stated |= {each.name: About(noise=each.kind) for each in wiring.noise}
    given = dict(about or {})
    step = _step_class(policy)
    native = step(original, wiring, interaction_type)
    return Source(
        step(plan.stages, wiring, interaction_type),
        example=tensors | {each.name: each.example() for each in wiring.noise},
        memory=dict(plan.initial),
        normalizer=normalizer,
        action=action,
        about=specs.merged(stated, given),
        dynamic=dict(dynamic or {}),
        meaning=specs.meaning(first, spec, table, given),
        period_s=period_s,
        frame_skip=frame_skip(env),
        batch=batch,
        ignore=ignore,
        rewritten=Rewriting(
            native,
            begin=native.begin,
            keywords=_keywords(
                exploration, env, transforms=transforms, outputs=outputs, memory=memory,
                normalizer=normalizer, action=action or None, about=about, dynamic=dynamic,
                batch=batch, period_s=period_s, ignore=ignore or None, table=table or None,
            ),
            caveats=_caveats(plan.stages),
        ),
    )  # fmt: skip


def _step_class(policy: nn.Module) -> type[Step]:
    """A class of steps that has the name of the policy's class, which findings and the manifest
    show."""
    kind = type(policy)
    return type(kind.__name__, (Step,), {"__module__": kind.__module__})


def _original_stages(policy: nn.Module, core: Sequence[Stage], plan: PortPlan) -> list[Stage]:
    """The policy as its user calls it; one by one where a value head was left out, inputs and
    all."""
    if all(stage in plan.stages for stage in core):
        return [Stage(policy)]
    return [Stage(stage.module) for stage in core if stage in plan.stages]


def _transforms_around(core: Sequence[Stage], env: Any, transforms: Any) -> TransformStages:
    """The stages before and behind the policy: of the given transforms, or the environment's."""
    given = env if transforms is None and hasattr(env, "transform") else transforms
    if given is None or (isinstance(given, (tuple, list)) and not given):
        return TransformStages()
    return transform_stages(given, in_keys=read_keys(core), action_key=action_key(core))


def _primed_memory(core: Sequence[Stage], around: TransformStages) -> dict[str, Tensor]:
    """The values at which transforms start what the policy remembers, by name."""
    known = persisting_names(core)
    primed = {port_name(key): value for key, value in around.primed.items()}
    return {name: value for name, value in primed.items() if name in known}


def _caveats(stages: Sequence[Stage]) -> tuple[Finding, ...]:
    found = [stage.caveat for stage in stages if isinstance(stage, DistributionHead)]
    return tuple(each for each in found if each is not None)


def _with_noise(
    policy: nn.Module,
    sides: tuple[Sequence[Stage], Sequence[Stage]],
    wiring: Wiring,
    interaction_type: InteractionType | None,
    tensors: Mapping[str, Tensor],
) -> Wiring:
    """The wiring with a port for every draw of a step on the example; both sides draw alike.

    A distribution that cannot give what it is asked for says so here.
    """
    found = []
    for stages in sides:
        step = Step(stages, wiring, interaction_type)
        with preserved(policy, step), torch.no_grad(), _explained(policy):
            policy.eval()
            if interaction_type is not InteractionType.RANDOM:
                # Who draws nonetheless is found, and refused, when the source is studied.
                step(**_rows(tensors, 1))
                return wiring
            few, more = (step.draws(_rows(tensors, rows)).made for rows in _ROWS)
        found.append(draws.noise_ports(few, more, _ROWS))
    if found[0] != found[1]:
        raise ExportError(
            f"{type(policy).__name__} draws {len(found[1])} times, its parts {len(found[0])} times",
            code="RW143",
            hint="build the policy as a TensorDictSequential, so that every module is seen",
        )
    return wiring.with_noise(found[0])


@contextmanager
def _explained(policy: nn.Module) -> Iterator[None]:
    """Whatever the policy raises on the example becomes a finding with its line."""
    try:
        yield
    except RoadworthyError:
        raise
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise ExportError(
            f"the policy raised {type(error).__name__}: {first}",
            code="RW102",
            where=user_line(error) or type(policy).__name__,
            hint="call the policy on the example; its first axis is the batch, of any size",
        ) from error


def _rows(tensors: Mapping[str, Tensor], rows: int) -> dict[str, Tensor]:
    return {name: each[:1].expand(rows, *each.shape[1:]).clone() for name, each in tensors.items()}


def _keywords(exploration: Any, env: Any, **others: Any) -> str:
    """The keywords that describe the policy once more, each by its own name."""
    said = [f"exploration={getattr(exploration, 'value', exploration)!r}"] if exploration else []
    said += ["env=env"] if env is not None else ["example=example"]
    said += [f"{name}={name}" for name, value in others.items() if value is not None]
    return ", ".join(said)


def frame_skip(env: EnvBase | None) -> int | None:
    """The frames of one action; None where neither TorchRL nor what it wraps says it.

    `GymEnv` makes ALE games with one frame for each action, whatever their id means elsewhere.
    """
    if env is None:
        return None
    base: Any = getattr(env, "base_env", env)
    own = frame_skip_of(getattr(base, "_env", None))
    repeats = int(getattr(base, "wrapper_frame_skip", 1))
    chain: Any = getattr(env, "transform", None) or ()
    for transform in getattr(chain, "transforms", [chain] if chain else []):
        if type(transform).__name__ == "FrameSkipTransform":
            repeats *= int(transform.frame_skip)
    return None if own is None and repeats == 1 else (own or 1) * repeats
