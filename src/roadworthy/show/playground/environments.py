"""The environments that run inside the page, and whether a policy fits one of them."""

from __future__ import annotations

from dataclasses import dataclass

from roadworthy.errors import UsageError, did_you_mean
from roadworthy.spec.port import BATCH
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEnvironment:
    """An environment of envs.js: its class there, what it observes, and what it takes.

    `actions` is how many actions it chooses among; None where it takes a number.
    """

    name: str
    observes: int
    actions: int | None


_CARTPOLE = PageEnvironment(name="CartPole", observes=4, actions=2)
# As Gymnasium names them.
ENVIRONMENTS = {
    "CartPole-v0": _CARTPOLE,
    "CartPole-v1": _CARTPOLE,
    "Pendulum-v1": PageEnvironment(name="Pendulum", observes=3, actions=None),
    "MountainCar-v0": PageEnvironment(name="MountainCar", observes=2, actions=3),
    "Acrobot-v1": PageEnvironment(name="Acrobot", observes=6, actions=3),
    "CartPoleHiddenVelocity-v0": PageEnvironment(
        name="HiddenVelocityCartPole", observes=2, actions=2
    ),
}


def page_environment(name: str, signature: Signature) -> PageEnvironment:
    """The environment that a Gymnasium id names, or an error where the policy does not fit."""
    short = name.rpartition(":")[2]
    if short not in ENVIRONMENTS:
        raise UsageError(
            f"{name!r} does not run in a page",
            hint=f"{did_you_mean(short, ENVIRONMENTS)}; without --env the inputs are sliders",
        )
    found = ENVIRONMENTS[short]
    observed = signature.observed
    row = tuple(dim for dim in observed[0].shape if dim != BATCH)
    if len(observed) != 1 or row != (found.observes,):
        takes = ", ".join(f"{port.name} {port}" for port in observed)
        raise UsageError(
            f"{short} observes {found.observes} numbers, the policy takes {takes}",
            where="env", hint="name the environment that the policy was trained in",
        )  # fmt: skip
    action = signature.action
    sizes = action.sizes if action and action.kind == "discrete" else ()
    port = next(each for each in signature.outputs if each.name == signature.action_output)
    fits = not port.dtype.startswith("float") if found.actions else port.dtype.startswith("float")
    if not fits or (found.actions and sizes and sizes[0] > found.actions):
        takes = f"one of {found.actions} actions" if found.actions else "a number"
        raise UsageError(
            f"{short} takes {takes}, the policy gives {port.name} {port}",
            where="env", hint="export with action=rw.Argmax()" if found.actions else "",
        )  # fmt: skip
    if signature.fixed_rows not in (None, 1):
        raise UsageError(
            f"the policy takes {signature.fixed_rows} rows at once, the page has one environment",
            where="env", hint="export without batch=",
        )  # fmt: skip
    return found
