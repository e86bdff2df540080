"""Files that other releases of Stable-Baselines3 wrote, and what those releases made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from tests.checkpoints.stepping import Stepped

FOLDERS = sorted((Path(__file__).parent / "files" / "sb3").iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_model_of_another_release_acts_as_it_did_there(folder: Path) -> None:
    release, _, kind = folder.name.partition("-")
    assume = None if (folder / "vecnormalize.pkl").exists() else {"vecnormalize": "none"}
    source: Any = rw.to_source(folder / "model.zip", assume=assume)
    assert source.origin["version"] == release
    expected = np.load(folder / "expected.npz")
    if kind != "recurrent":
        got = Stepped(source, 40).step({"obs": expected["obs"]})["action"]
    else:
        actor, actions = Stepped(source, 1), []
        for step, obs in enumerate(expected["obs"]):
            if step == 25:
                actor.reset(np.ones(1, bool))
            actions.append(actor.step({"obs": obs[None]})["action"][0])
        got = np.stack(actions)
    np.testing.assert_allclose(got, expected["actions"], rtol=0, atol=1e-5)
    inside = (expected["actions"] > source.steps[-1].low) & (
        expected["actions"] < source.steps[-1].high
    )
    assert inside.mean() > 0.1  # not everything is at a limit
