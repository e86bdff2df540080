"""From a TorchRL policy to a source: keys become ports, hidden states memory, draws noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict.nn import InteractionType
from torch import Tensor, nn

from roadworthy.adapters.torchrl import draws, specs
from roadworthy.adapters.torchrl.exploration import chosen_way, questions
from roadworthy.adapters.torchrl.heads import Head
from roadworthy.adapters.torchrl.keys import colliding, port_name
from roadworthy.adapters.torchrl.part import Part, Plain
from roadworthy.adapters.torchrl.parts import staged, taken_apart
from roadworthy.adapters.torchrl.plan import Plan, action_key, persisting_names, planned, read_keys
from roadworthy.adapters.torchrl.stage import Stage
from roadworthy.adapters.torchrl.step import Step, Wiring
from roadworthy.adapters.torchrl.transforms import stages
from roadworthy.capture.snapshot import preserved
from roadworthy.errors import ExportError, RoadworthyError, UsageError
from roadworthy.lines import user_line
from roadworthy.source import Rewriting, Source
from roadworthy.spec.port import About
from roadworthy.spec.transforms import ActionStep

_ROWS = (3, 4)


def source(
    policy: nn.Module,
    *,
    exploration: str | None = None,
    env: Any = None,
    transforms: Any = None,
    example: Any = None,
    outputs: Sequence[Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    normalizer: Any = None,
    action: ActionStep | Sequence[ActionStep] = (),
    table: Sequence[str | int] = (),
    period_s: float | None = None,
    batch: int | None = None,
) -> Source:
    """The source of a TorchRL policy, for `rw.export` and for `rw.verify(…, against=…)`.

    exploration  "deterministic", "mode", "mean" or "random"; asked for where the policy draws
    env          the environment it acts in: its specs give the example and the limits, its
                 transforms are exported in front of the policy and behind it
    transforms   other transforms than those of `env`; () for none
    example      a TensorDict or a dict with the inputs, where no `env` is given
    outputs      keys to give; left out, the action
    memory       name → initial value of one row, for hidden states that TorchRL does not know
    table        what each index of a discrete action means
    """
    return describe(
        policy, exploration=exploration, env=env, transforms=transforms, example=example,
        outputs=outputs, memory=memory, normalizer=normalizer, action=action, table=table,
        period_s=period_s, batch=batch,
    )  # fmt: skip


def describe(
    policy: Any,
    *,
    example: Any,
    memory: Mapping[str, Any] | None,
    normalizer: Any,
    outputs: Sequence[Any] | None,
    action: Any,
    exploration: str | None = None,
    env: Any = None,
    transforms: Any = None,
    table: Sequence[str | int] = (),
    period_s: float | None = None,
    batch: int | None = None,
) -> Source:
    """The source of a TorchRL policy: see `source`."""
    way = chosen_way(exploration)
    core = taken_apart(policy, way)
    before, behind, primed = _stages(env, transforms, core)
    chain = [*staged(before), *core, *staged(behind)]
    # With transforms in the artifact, what goes in is what the bare environment gives.
    raw = env.base_env if (before or behind) and hasattr(env, "base_env") else env
    # Draws are matched by their order, so a policy that draws is kept whole.
    random = way is InteractionType.RANDOM
    plan = planned(chain, outputs, raw, primed | dict(memory or {}), whole=random)
    values, missing = specs.examples(plan.inputs, example, raw)
    asked = [] if way else list(questions(policy))
    findings = [*asked, *plan.findings, *colliding(plan.inputs), *colliding(plan.outputs), *missing]
    if findings:
        raise UsageError(findings=findings)
    tensors = {port_name(key): value for key, value in values.items()}
    wiring = plan.wiring(specs.groups(plan.inputs, example, raw))
    truth = [*staged(before), *_native(policy, core, plan), *staged(behind)]
    wiring = _tried(policy, (plan.parts, truth), wiring, way, tensors | dict(plan.initial))
    spec = specs.action_spec(policy, plan.outputs[0], raw if behind else None, env)
    first = port_name(plan.outputs[0])
    noise = {each.name: About(noise=each.kind) for each in wiring.noise}
    native = _named(policy)(truth, wiring, way)
    return Source(
        _named(policy)(plan.parts, wiring, way),
        example=tensors | {each.name: each.example() for each in wiring.noise},
        memory=dict(plan.initial),
        normalizer=normalizer,
        action=action,
        about=specs.abouts(plan.inputs, raw) | specs.about_action(first, spec, action) | noise,
        meaning=specs.meaning(first, spec, table),
        period_s=period_s,
        batch=batch,
        rewritten=Rewriting(
            native,
            keywords=_keywords(exploration, env, transforms),
            begin=native.begin,
            caveats=tuple(p.caveat for p in plan.parts if isinstance(p, Head) and p.caveat),
        ),
    )


def _named(policy: nn.Module) -> type[Step]:
    """A step that bears the name of the policy's class, which findings and the manifest show."""
    kind = type(policy)
    return type(kind.__name__, (Step,), {"__module__": kind.__module__})


def _native(policy: nn.Module, core: Sequence[Part], plan: Plan) -> list[Part]:
    """The policy as its user calls it; one by one where a value head was left out, inputs and
    all."""
    if all(part in plan.parts for part in core):
        return [Plain(policy)]
    return [Plain(part.module) for part in core if part in plan.parts]


def _stages(
    env: Any, transforms: Any, core: Sequence[Part]
) -> tuple[list[Stage], list[Stage], dict[str, Tensor]]:
    """The transforms of the environment as stages before and behind the policy, and the values
    at which they start what the policy remembers."""
    given = env if transforms is None and hasattr(env, "transform") else transforms
    if given is None or (isinstance(given, (tuple, list)) and not given):
        return [], [], {}
    found = stages(given, in_keys=read_keys(core), action_key=action_key(core))
    known = persisting_names(core)
    primed = {port_name(key): value for key, value in found.primed.items()}
    started = {name: value for name, value in primed.items() if name in known}
    return list(found.observation), list(found.action), started


def _tried(
    policy: nn.Module,
    sides: tuple[Sequence[Part], Sequence[Part]],
    wiring: Wiring,
    way: InteractionType | None,
    tensors: Mapping[str, Tensor],
) -> Wiring:
    """The wiring with a port for every draw of a step on the example; both sides draw alike.

    A distribution that cannot give what it is asked for says so here.
    """
    made = []
    for parts in sides:
        step = Step(parts, wiring, way)
        with preserved(policy, step), torch.no_grad(), _explained(policy):
            policy.eval()
            if way is not InteractionType.RANDOM:
                # Who draws nonetheless is found, and refused, when the source is studied.
                step(**_rows(tensors, 1))
                return wiring
            few, more = (step.draws(_rows(tensors, rows)).made for rows in _ROWS)
        made.append(draws.ports(few, more, _ROWS))
    if made[0] != made[1]:
        raise ExportError(
            f"{type(policy).__name__} draws {len(made[1])} times, its parts {len(made[0])} times",
            code="RW143",
            hint="build the policy as a TensorDictSequential, so that every module is seen",
        )
    return wiring.with_noise(made[0])


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


def _keywords(exploration: Any, env: Any, transforms: Any) -> str:
    said = [f"exploration={getattr(exploration, 'value', exploration)!r}"] if exploration else []
    said += ["env=env"] if env is not None else ["example=example"]
    said += ["transforms=transforms"] if transforms is not None else []
    return ", ".join(said)
