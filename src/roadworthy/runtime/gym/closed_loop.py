"""A closed loop: the environment, for how long, and what counts as playing as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from roadworthy.errors import UsageError, did_you_mean, need


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Episodes of an environment in which a policy is verified.

    env         a Gymnasium id, a function that makes an environment, or a vectorised one
    episodes    how many are played, seeds counted up from the seed of the verification
    max_steps   most steps of an episode
    margin      how much mean return the artifact may lose where steps cannot be compared;
                left out: 5 % of the original's mean return
    tie_margin  how close two logits must be for either action to be right; left out: the
                tolerance of their dtype
    """

    env: str | Callable[[], Any]
    episodes: int = field(default=20, kw_only=True)
    max_steps: int = field(default=10_000, kw_only=True)
    margin: float | None = field(default=None, kw_only=True)
    tie_margin: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("episodes", "max_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("margin", "tie_margin"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UsageError(f"{name} must be 0 or more, got {value}")

    def make(self) -> Any:
        """A new environment."""
        if isinstance(self.env, str):
            return make_env(self.env)
        if not callable(self.env):
            raise UsageError(
                f"expected a Gymnasium id or a function, got a {type(self.env).__name__}",
                where="env",
                hint="pass a function that makes it: env=lambda: gym.make(…); "
                "both sides play in a copy of their own",
            )
        made = self.env()
        if not hasattr(made, "step"):
            raise UsageError(
                f"the function returned a {type(made).__name__}, expected an environment",
                where="env",
                hint="return a Gymnasium environment: env=lambda: gym.make(…)",
            )
        return made


def make_env(name: str) -> Any:
    """The environment that `name` means to Gymnasium."""
    gym: Any = need("gymnasium", extra="gym")
    try:
        return gym.make(name)
    except gym.error.Error as error:
        near = did_you_mean(name, list(gym.registry))
        hint = (
            near
            if near.startswith("did")
            else "pass a Gymnasium id, module:Id, or file.py:make_env"
        )
        raise UsageError(f"no environment {name!r}: {error}", hint=hint) from error
    except ModuleNotFoundError as error:
        hint = f"pip install the package that provides {error.name}"
        raise UsageError(f"no environment {name!r}: {error}", hint=hint) from error
