"""Values are followed to where they are used."""

from __future__ import annotations

import numpy as np
import torch

from roadworthy.frameworks.managers.provenance import addresses, used_by


def used(tensor: torch.Tensor, results: torch.Tensor) -> list[bool]:
    return np.isin(addresses(tensor), results).tolist()


def test_what_is_taken_and_dropped_is_not_used() -> None:
    bodies = torch.arange(12.0).reshape(1, 4, 3)

    def anchor() -> list[torch.Tensor]:
        every = torch.cat([bodies[:, torch.tensor([0, 1, 2, 3])], bodies], dim=-1)
        return [every[:, 2, :3] * 2.0]

    found = np.isin(addresses(bodies), used_by(anchor))
    assert found[0].any(axis=-1).tolist() == [False, False, True, False]


def test_a_comparison_is_a_use() -> None:
    distances, heights = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])
    found = used_by(lambda: [torch.where(distances < 0, torch.full_like(heights, 9.0), heights)])
    assert used(distances, found) == [[True, True]]
    assert used(heights, found) == [[True, True]]


def test_what_is_overwritten_is_not_used() -> None:
    target, value = torch.zeros(1, 3), torch.ones(1, 3)

    def written() -> list[torch.Tensor]:
        target[:, :2] = value[:, :2]
        return [target[:, :2] + 0.0]

    found = used_by(written)
    assert used(value, found) == [[True, True, False]]


def test_an_index_is_a_use_of_itself() -> None:
    frames, place = torch.arange(6.0).reshape(3, 2), torch.tensor([1])
    found = used_by(lambda: [frames[place] + 1.0])
    assert used(place, found) == [True]
    assert used(frames, found) == [[False, False], [True, True], [False, False]]


def test_what_may_leave_pytorch_is_used() -> None:
    """What NumPy does with a copy is not seen."""
    state = torch.arange(4.0)
    found = used_by(lambda: [torch.from_numpy(state.to("cpu", copy=True).numpy() * 2)])
    assert used(state, found) == [True] * 4
