"""The registry: style of environment → a function that makes one, registered, with its actor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from roadworthy.environment import ExportableActor, ExportableEnvironment
from tests.environment import robots, writing
from tests.environment.robot import Robot, feedforward

Made = tuple[ExportableEnvironment, ExportableActor]


def plain(kind: type[Robot]) -> Made:
    env = kind()
    return env, feedforward(env)


def moved_on(kind: type[Robot]) -> Made:
    """Registered at birth, exported in the middle of an episode."""
    env, actor = plain(kind)
    for _ in range(5):
        env.step(actor(env.compute_observations()).detach())
    return env, actor


def with_lstm() -> Made:
    return robots.with_recurrent(robots.PdFourTicks(), nn.LSTM)


def with_gru() -> Made:
    return robots.with_recurrent(robots.FourRobots(), nn.GRU)


ENVIRONMENTS: dict[str, Callable[[], Made]] = {
    "in_place": partial(plain, writing.InPlace),
    "slices": partial(plain, writing.Slices),
    "copies": partial(plain, writing.Copies),
    "rebinding": partial(plain, writing.Rebinding),
    "early_views": partial(plain, writing.EarlyViews),
    "callback_views": partial(plain, writing.CallbackViews),
    "replaced": partial(moved_on, writing.Replaced),
    "connected": partial(plain, writing.Connected),
    "pd": partial(plain, robots.Pd),
    "pd_four_ticks": partial(moved_on, robots.PdFourTicks),
    "four_robots": partial(plain, robots.FourRobots),
    "integers": partial(plain, robots.Integers),
    "quaternions": partial(plain, robots.Quaternions),
    "encoded": partial(plain, robots.Encoded),
    "history": partial(plain, robots.History),
    "ring": partial(plain, robots.Ring),
    "delayed": partial(plain, robots.Delayed),
    "two_arms": partial(plain, robots.TwoArms),
    "noisy": partial(plain, robots.Noisy),
    "module": partial(plain, robots.EnvironmentModule),
    "lstm": with_lstm,
    "gru": with_gru,
}
