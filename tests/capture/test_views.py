"""Any chain of views is made again on a copy: the same values, and the same place to write."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from roadworthy.capture.substitution.views import Window, look, readable

TRIALS = 300


def viewed(value: Tensor, rng: random.Random) -> Tensor:
    """One view of `value`, of a random kind."""
    kind = rng.choice(["slice", "select", "permute", "flatten", "split", "step", "add", "expand"])
    if value.ndim == 0:
        return value.unsqueeze(0)
    axis = rng.randrange(value.ndim)
    if kind == "slice":
        start = rng.randrange(value.shape[axis])
        return value.narrow(axis, start, rng.randint(1, value.shape[axis] - start))
    if kind == "select":
        return value.select(axis, rng.randrange(value.shape[axis]))
    if kind == "permute":
        return value.permute(*rng.sample(range(value.ndim), value.ndim))
    if kind == "flatten":
        return value.view(-1) if value.is_contiguous() else value
    if kind == "split":
        return value.unflatten(axis, (-1, 2)) if value.shape[axis] % 2 == 0 else value
    if kind == "step":
        return value[(*(slice(None),) * axis, slice(None, None, 2))]
    if kind == "add":
        return value.unsqueeze(rng.randint(0, value.ndim))
    return value.unsqueeze(0).expand(rng.randint(1, 3), *value.shape)


def example(seed: int) -> tuple[Tensor, Tensor]:
    """A base, and what a chain of up to five views makes of it."""
    rng = random.Random(seed)
    shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    base = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape)
    view = base
    for _ in range(rng.randint(0, 5)):
        view = viewed(view, rng)
    return base, view


def overlaps(view: Tensor) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(view.stride(), view.shape, strict=True))


def followed(base: Tensor, view: Tensor, copy: Tensor) -> Tensor | None:
    """The view on `copy`; None where only reading can follow it."""
    try:
        return look(copy, tuple(base.shape), Window.of(view, base))
    except ValueError:
        return None


@pytest.mark.parametrize("block", range(5))
def test_reading_follows_every_view(block: int) -> None:
    for seed in range(block * TRIALS, (block + 1) * TRIALS):
        base, view = example(seed)
        again = readable(base.clone(), Window.of(view, base))
        assert again.shape == view.shape, seed
        assert torch.equal(again, view), seed


@pytest.mark.parametrize("block", range(5))
def test_look_shows_what_the_view_shows(block: int) -> None:
    count = 0
    for seed in range(block * TRIALS, (block + 1) * TRIALS):
        base, view = example(seed)
        again = followed(base, view, base.clone())
        if again is not None:
            count += 1
            assert again.shape == view.shape, seed
            assert torch.equal(again, view), seed
    # What look cannot follow is rare: strides that cross dimensions.
    assert count > 0.85 * TRIALS


@pytest.mark.parametrize("block", range(5))
def test_writing_through_look_writes_into_the_base(block: int) -> None:
    for seed in range(block * TRIALS, (block + 1) * TRIALS):
        base, view = example(seed)
        copy = base.clone()
        again = followed(base, view, copy)
        if again is None or overlaps(view):
            continue
        again.neg_()
        view.neg_()
        assert torch.equal(copy, base), seed


def test_look_at_the_whole_is_the_base_itself() -> None:
    base = torch.zeros(2, 3)
    assert look(base, (2, 3), Window.of(base, base)) is base


def test_view_that_crosses_dimensions_is_refused_but_readable() -> None:
    base = torch.arange(6.0).reshape(2, 3)
    diagonal = base.as_strided((2,), (4,), 0)
    window = Window.of(diagonal, base)
    with pytest.raises(ValueError, match=r"stride 4 crosses the dimensions of \(2, 3\)"):
        look(base, (2, 3), window)
    assert readable(base, window).tolist() == [0.0, 4.0]


def test_view_that_runs_over_an_end_is_refused_but_readable() -> None:
    base = torch.arange(6.0).reshape(2, 3)
    across = base.view(-1)[2:5]
    window = Window.of(across, base)
    with pytest.raises(ValueError, match="the view runs over the end of a dimension"):
        look(base, (2, 3), window)
    assert readable(base, window).tolist() == [2.0, 3.0, 4.0]


def test_bytes_between_elements_are_no_window() -> None:
    base = torch.zeros(4)
    between = base.view(torch.uint8)[1:]
    with pytest.raises(ValueError, match="does not begin at an element"):
        Window.of(between, base)
