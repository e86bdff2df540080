"""What simulators do and a search must not stumble over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.environment import ExportableEnvironment, Input, Memory, Output
from roadworthy.errors import ExportError, UsageError


class Cart(ExportableEnvironment):
    """A cart that is pushed; what each case is about is in a class that inherits from it."""

    def __init__(self, rows: int = 1) -> None:
        super().__init__()
        self.rows = rows
        self.position, self.velocity = torch.zeros(rows, 1), torch.ones(rows, 1)
        self.action, self.force = torch.zeros(rows, 1), torch.zeros(rows, 1)
        self.context_manager().add_components(
            [Input("position", lambda: self.position), Input("velocity", lambda: self.velocity)]
        )
        self.register()

    def register(self) -> None:
        self.context_manager().add_component(Output("force", lambda: self.force))

    def compute_observations(self) -> torch.Tensor:
        return torch.cat([self.position, self.velocity], dim=1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.action[:] = actions

    def apply_actions(self) -> None:
        self.force[:] = self.action - self.position

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process_actions(actions)
        self.apply_actions()
        self.velocity += 0.1 * self.force
        self.position += 0.1 * self.velocity
        return self.compute_observations(), False

    def observations_reset(self) -> torch.Tensor:
        self.position.zero_()
        self.velocity.fill_(1.0)
        self.action.zero_()
        return self.compute_observations()

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(self.rows, 1)


def actor(width: int = 2) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(width, 1)


def first_step(folder: Path, position: float, velocity: float) -> dict[str, Any]:
    given = {"position": [[position]], "velocity": [[velocity]]}
    return rw.load(folder).step({name: np.float32(each) for name, each in given.items()})


class PartlyWritten(Cart):
    """Three targets, of which the action term writes one; a reset clears them all."""

    def register(self) -> None:
        self.targets = torch.full((1, 3), 0.5)
        self.context_manager().add_component(Output("targets", lambda: self.targets))

    def apply_actions(self) -> None:
        super().apply_actions()
        self.targets[:, 1:2] = self.force

    def observations_reset(self) -> torch.Tensor:
        self.targets.fill_(0.5)
        return super().observations_reset()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        found = super().step(actions)
        self.targets[:, 0] = 0.5
        return found


def test_an_output_of_which_a_step_writes_a_part_is_exported(tmp_path: Path) -> None:
    bundle = rw.export_environment(PartlyWritten(), actor(), tmp_path / "out")
    assert not bundle.signature.memory  # every tick decides: nothing waits for a tick between
    got = first_step(tmp_path / "out", 0.0, 1.0)
    assert got["targets"][0, [0, 2]].tolist() == [0.5, 0.5]


class FixedDelay(Cart):
    """A delay that is drawn between 2 and 2."""

    def compute_observations(self) -> torch.Tensor:
        lag = torch.randint(2, 3, (self.rows,))
        return super().compute_observations() * lag[:, None]


class RealDelay(Cart):
    def compute_observations(self) -> torch.Tensor:
        lag = torch.randint(low=2, high=4, size=(self.rows,))
        return super().compute_observations() * lag[:, None]


def test_a_draw_of_one_number_is_that_number(tmp_path: Path) -> None:
    rw.export_environment(FixedDelay(), actor(), tmp_path / "out")
    got = first_step(tmp_path / "out", 0.5, 1.0)
    assert got["obs"].tolist() == [[1.0, 2.0]]


def test_a_draw_of_two_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="RW123"):
        rw.export_environment(RealDelay(), actor(), tmp_path / "out")


class Proxy:
    """An array of another library, which unwraps itself when PyTorch is called with it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def plain(each: Any) -> Any:
            if isinstance(each, (list, tuple)):
                return type(each)(plain(item) for item in each)
            return each.tensor if isinstance(each, cls) else each

        return func(*plain(args), **(kwargs or {}))


class Wrapped(Cart):
    def compute_observations(self) -> torch.Tensor:
        both: torch.Tensor = torch.add(Proxy(self.position), self.velocity)  # type: ignore[call-overload]
        return torch.cat([both, self.velocity], dim=1)


def test_an_array_that_stands_for_a_tensor_is_seen(tmp_path: Path) -> None:
    rw.export_environment(Wrapped(), actor(), tmp_path / "out")
    got = first_step(tmp_path / "out", 3.0, 1.0)
    assert got["obs"].tolist() == [[4.0, 1.0]]


class Differing(Cart):
    """Each environment has a gain of its own."""

    def register(self) -> None:
        super().register()
        self.gain = torch.linspace(1.0, 2.0, self.rows)[:, None]

    def compute_observations(self) -> torch.Tensor:
        return super().compute_observations() * self.gain


def test_a_file_for_four_rows_says_why(tmp_path: Path) -> None:
    with pytest.warns(rw.RoadworthyWarning, match=r"RW189.*exactly 4 rows"):
        bundle = rw.export_environment(Differing(4), actor(), tmp_path / "out")
    assert bundle.signature.inputs[0].shape == (4, 1)


class Buffers(Cart):
    """State in dictionaries, under names that are no attributes, and twice the same name."""

    def register(self) -> None:
        super().register()
        self.sensors = {
            "left/imu": {"view": torch.zeros(1, 1)},
            "right/imu": {"view": torch.zeros(1, 1)},
        }

    def compute_observations(self) -> torch.Tensor:
        seen = [each["view"] for each in self.sensors.values()]
        return torch.cat([super().compute_observations(), *seen], dim=1)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        for number, each in enumerate(self.sensors.values()):
            each["view"] += 0.1 * (number + 1) * self.velocity
        return super().step(actions)


def test_proposals_have_names_of_their_own_and_are_python(tmp_path: Path) -> None:
    env, model = Buffers(), actor(4)
    lines = rw.discover(env, model).lines
    names = [line.partition("name=")[2].partition(",")[0] for line in lines]
    assert sorted(names) == ["'left_imu_view'", "'right_imu_view'"]
    for line in lines:
        exec(line, {"env": env, "Input": Input, "Memory": Memory})
    rw.export_environment(env, model, tmp_path / "out")


class Unprepared(Cart):
    """Noise that only prepare_export takes out."""

    def register(self) -> None:
        super().register()
        self.bias = torch.full((1, 1), 0.3)

    def prepare_export(self) -> None:
        self.bias.zero_()

    def compute_observations(self) -> torch.Tensor:
        return super().compute_observations() + self.bias


def test_what_is_prepared_for_the_export_is_prepared_for_every_comparison(tmp_path: Path) -> None:
    env = Unprepared()
    rw.export_environment(env, actor(), tmp_path / "out")
    assert env.bias.item() == pytest.approx(0.3)
    got = first_step(tmp_path / "out", 0.5, 1.0)
    assert got["obs"].tolist() == [[0.5, 1.0]]


@pytest.mark.parametrize("call", [rw.discover, lambda e, a: rw.export_environment(e, a, "out")])
def test_something_that_is_no_environment_is_named(call: Any) -> None:
    with pytest.raises(UsageError, match="a dict is no environment that can be exported"):
        call({}, actor())
