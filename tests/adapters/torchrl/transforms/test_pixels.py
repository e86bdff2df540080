"""Images: real frames of Pong, and the formulas of torchvision, which is not installed here."""

from __future__ import annotations

from pathlib import Path

import ale_py
import gymnasium
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchrl.envs import EnvBase, GymEnv
from torchrl.envs.transforms import (
    CatFrames,
    CenterCrop,
    Compose,
    Crop,
    GrayScale,
    PermuteTransform,
    Resize,
    TimeMaxPool,
    ToTensorImage,
    UnaryTransform,
    _observation,
)

from roadworthy.frameworks.torchrl.transforms import stages
from tests.adapters.torchrl.transforms.following import Eager, Exported, Staged, agree, follow

gymnasium.register_envs(ale_py)


def pong() -> EnvBase:
    return GymEnv("ALE/Pong-v5", categorical_action_encoding=True)


def many(every: int = 1) -> Compose:
    """All image transforms on every so many pixels."""
    return Compose(
        UnaryTransform(["pixels"], ["raw"], fn=lambda x: x[::every, ::every]),
        PermuteTransform([-1, -3, -2], in_keys=["raw"], out_keys=["chw"]),
        GrayScale(in_keys=["chw"], out_keys=["gray_of_integers"]),
        ToTensorImage(in_keys=["raw"], out_keys=["image"]),
        ToTensorImage(in_keys=["raw"], out_keys=["lone"], unsqueeze=True, dtype=torch.float64),
        GrayScale(in_keys=["image"], out_keys=["gray"]),
        CatFrames(4, -3, in_keys=["gray"], out_keys=["frames"]),
        TimeMaxPool(in_keys=["gray_of_integers"], out_keys=["pool"], T=2),
    )


KEYS = ["frames", "pool", "lone"]


@pytest.mark.parametrize("rows", [1, 2])
def test_images_are_exact_on_real_frames(rows: int) -> None:
    made = follow(many, in_keys=KEYS, base=pong, rows=rows, steps=7, every=4)
    assert made.inputs == ("pixels",)


def test_images_survive_the_export(tmp_path: Path) -> None:
    follow(
        lambda: many(8), in_keys=KEYS, base=pong, rows=2, steps=7, every=4,
        folder=tmp_path / "bundle", tolerance=1e-6,
    )  # fmt: skip


def staged(transform: object, image: Tensor) -> Tensor:
    made = stages([transform], in_keys=["pixels"], action_key="action")
    (result,) = made.observation[0].module(image)
    return result


@pytest.mark.parametrize("from_int", [None, True, False])
@pytest.mark.parametrize("shape", [(6, 5, 3), (3, 6, 5)], ids=["hwc", "chw"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_an_image_is_divided_and_turned_when_torchrl_does_it(
    from_int: bool | None, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    images = (torch.rand(2, *shape) * 255).to(dtype)
    transform = ToTensorImage(from_int=from_int, shape_tolerant=True)
    expected = torch.stack([transform._apply_transform(image) for image in images])
    assert torch.equal(staged(transform, images), expected)


@pytest.fixture
def resizable(monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchRL's Resize can be built, as it can where torchvision is installed."""
    monkeypatch.setattr(_observation, "_has_tv", True)


@pytest.mark.usefixtures("resizable")
@pytest.mark.parametrize("size", [(210, 160), (50, 60), (84, 84), (90, 61)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resize_is_what_torch_computes(mode: str, size: tuple[int, int]) -> None:
    image = torch.rand(2, 3, *size)
    options = {} if mode.startswith("nearest") else {"antialias": True, "align_corners": False}
    expected = functional.interpolate(image, (84, 72), mode=mode, **options)
    got = staged(Resize(84, 72, interpolation=mode), image)
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-6 if options else 0)


@pytest.mark.usefixtures("resizable")
def test_resize_rounds_integers_as_torchvision_does() -> None:
    image = torch.randint(0, 256, (2, 3, 50, 60), dtype=torch.uint8)
    wide = functional.interpolate(image.float(), (84, 84), mode="bilinear", antialias=True)
    got = staged(Resize(84), image)
    assert got.dtype == torch.uint8
    # A value in the middle of two may fall to either side.
    assert (got.float() - wide).abs().max() <= 0.5 + 1e-4


@pytest.mark.usefixtures("resizable")
def test_sizes_survive_the_export(tmp_path: Path) -> None:
    chain = [
        ToTensorImage(in_keys=["pixels"], out_keys=["image"]),
        Resize(21, 24, in_keys=["image"], out_keys=["bilinear"]),
        Resize(21, 24, "bicubic", in_keys=["image"], out_keys=["bicubic"]),
        Resize(40, 15, "nearest", in_keys=["image"], out_keys=["nearest"]),
        Crop(9, 8, top=1, left=15, in_keys=["image"], out_keys=["crop"]),
        CenterCrop(40, 10, in_keys=["image"], out_keys=["center"]),
    ]
    keys = ["bilinear", "bicubic", "nearest", "crop", "center"]
    eager = Staged(stages(chain, in_keys=keys, action_key="action"), keys, "action")
    raw = {"pixels": torch.randint(0, 256, (3, 30, 20, 3), dtype=torch.uint8)}
    action = torch.zeros(3, 1)
    exported = Exported(eager, raw, action, tmp_path / "bundle")
    for rows in (3, 1):
        given = {"pixels": raw["pixels"][:rows]}
        exported.reset(torch.ones(rows, dtype=torch.bool))
        got = exported.step(given, action[:rows])
        for key, expected in Eager(eager, rows).step(given, action[:rows]).items():
            agree(got[key], expected, 1e-6, str(key))


def test_a_crop_is_black_beyond_the_edge() -> None:
    image = torch.rand(1, 3, 5, 6)
    got = staged(Crop(4, 5, top=3, left=2), image)
    assert torch.equal(got[..., :2, :4], image[..., 3:, 2:])
    assert got.shape == (1, 3, 4, 5)
    assert not got[..., 2:, :].any()
    assert not got[..., :, 4:].any()


def test_a_center_crop_takes_the_middle() -> None:
    image = torch.rand(1, 3, 7, 6)
    assert torch.equal(staged(CenterCrop(3, 2), image), image[..., 2:5, 2:4])
    tall = staged(CenterCrop(10, 2), image)
    assert torch.equal(tall[..., 1:8, :], image[..., 2:4])
    assert not tall[..., :1, :].any()
    assert not tall[..., 8:, :].any()
