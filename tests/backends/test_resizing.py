"""Images of another size are PyTorch's to the last bits, in onnxruntime and in C."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import roadworthy as rw
from roadworthy.api.export import captured
from roadworthy.api.options import ExportPlan
from roadworthy.spec.bundle import POLICY

# torch.onnx warns of its own parts; the backend keeps it quiet, torch.export does not.
pytestmark = pytest.mark.filterwarnings("ignore")
ENGINES = ("onnx", "c")
# So many roundings of the largest pixel a sum of up to 64 pixels may be away.
MOST = 16
Words = dict[str, Any]
# The mode → its axes, and the words that go with it.
MODES: dict[str, tuple[tuple[int, ...], tuple[Words, ...]]] = {
    "nearest": ((1, 2, 3), ({},)),
    "nearest-exact": ((1, 2, 3), ({},)),
    "linear": ((1,), ({}, {"align_corners": True})),
    "bilinear": ((2,), ({}, {"align_corners": True}, {"antialias": True})),
    "bicubic": ((2,), ({}, {"align_corners": True}, {"antialias": True})),
    "trilinear": ((3,), ({}, {"align_corners": True})),
}
OLD = (5, 11, 8)
# Larger, smaller, one of each; down to one pixel; where a float's whole part is not the number's.
ASKED: dict[int, tuple[Words, ...]] = {
    1: (
        {"size": 13}, {"size": 2}, {"size": 1}, {"scale_factor": 1.7},
        {"scale_factor": 0.6, "recompute_scale_factor": True},
    ),
    2: (
        {"size": (9, 4)}, {"size": (1, 1)}, {"scale_factor": (0.5, 1.3)},
        {"scale_factor": 0.7, "recompute_scale_factor": True},
    ),
    3: ({"size": (7, 4, 8)}, {"scale_factor": (2.0, 0.4, 1.0)}),
}  # fmt: skip


class Resizing(nn.Module):
    """One image in many sizes."""

    def __init__(self, *asked: Words) -> None:
        super().__init__()
        self.asked = asked

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {
            f"way_{place}": functional.interpolate(obs, **words)
            for place, words in enumerate(self.asked)
        }


def images(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Three rows of two channels, sharp from pixel to pixel."""
    drawn = torch.randint(0, 256, (3, 2, *size), generator=torch.Generator().manual_seed(7))
    return drawn.to(dtype) if dtype == torch.uint8 else (drawn / 64 - 2).to(dtype)


def written(module: nn.Module, folder: Path, image: Tensor, **keywords: Any) -> Path:
    """The ONNX file of the module, not yet compared with it."""
    source = rw.to_source(module, example={"obs": image[:1]}, **keywords)
    program, _ = captured(source, ExportPlan())
    (file,) = ExportPlan().backend("onnx").lower(program, folder)
    return file


def distances(module: nn.Module, file: Path, image: Tensor) -> Iterator[tuple[str, float]]:
    """Of each engine and result, how many of the image's roundings it is away from PyTorch."""
    with torch.no_grad():
        wanted = {name: value.numpy() for name, value in module(image).items()}
    unit = np.spacing(image.abs().max().numpy()) if image.is_floating_point() else 1
    for engine in ENGINES:
        got = rw.load(file, engine=engine, canary=False).step({"obs": image.numpy()})
        for name, value in wanted.items():
            assert got[name].dtype == value.dtype
            assert got[name].shape == value.shape
            far = np.abs(got[name].astype(np.float64) - value).max() / unit
            yield f"{engine} {name}", float(far)


def operators(file: Path) -> list[str]:
    return [node.op_type for node in onnx.load(file).graph.node]


CASES = [(mode, axes) for mode, (of, _) in MODES.items() for axes in of]


@pytest.mark.parametrize(("mode", "axes"), CASES)
def test_image_of_another_size_is_pytorchs(mode: str, axes: int, tmp_path: Path) -> None:
    asked = [
        {"mode": mode, **size, **words}
        for size, words in itertools.product(ASKED[axes], MODES[mode][1])
    ]
    module, image = Resizing(*asked), images(*OLD[:axes])
    file = written(module, tmp_path, image)
    assert "Resize" not in operators(file)
    most = 0 if mode.startswith("nearest") else MOST
    assert {name: far for name, far in distances(module, file, image) if far > most} == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nearest_pixels_are_those_of_the_images_own_arithmetic(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    """49 · (1/49) is less than 1 in floats; from 2 to 82 pixels float32 and float64 disagree."""
    for old, sizes in {2: (82, 94, 49), 3: (123, 98), 49: (98, 7, 48), 98: (49, 14, 97)}.items():
        module = Resizing(*({"size": new, "mode": "nearest"} for new in sizes))
        image = images(old, dtype=dtype)
        folder = tmp_path / str(old)
        folder.mkdir()
        far = dict(distances(module, written(module, folder, image), image))
        assert set(far.values()) == {0}, (old, far)


@pytest.mark.parametrize("size", [(1, 12), (12, 1), (1, 1)], ids=str)
def test_image_of_one_line_is_resized_too(size: tuple[int, int], tmp_path: Path) -> None:
    module = Resizing(
        *(
            {"mode": mode, "size": (3, 5), **words}
            for mode in ("nearest", "bilinear", "bicubic")
            for words in MODES[mode][1]
        ),
        {"mode": "bilinear", "size": (1, 5)},
        # To one column PyTorch's own antialiased ones are wrong.
        {"mode": "bicubic", "size": (4, 2), "antialias": True},
    )
    image = images(*size)
    file = written(module, tmp_path, image)
    assert "Resize" not in operators(file)
    assert {name: far for name, far in distances(module, file, image) if far > MOST} == {}


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_image_of_the_same_size_is_itself(mode: str, tmp_path: Path) -> None:
    module, image = Resizing({"mode": mode, "size": (5, 7)}), images(5, 7)
    file = written(module, tmp_path, image)
    # bicubic reads the neighbours too, times 0: NaN goes through.
    assert mode == "bicubic" or set(operators(file)) <= {"Identity"}
    assert set(dict(distances(module, file, image)).values()) == {0}


@pytest.mark.parametrize(
    ("dtype", "modes"),
    [
        (torch.float16, ("nearest", "bilinear", "bicubic")),
        (torch.float64, ("nearest", "bilinear", "bicubic")),
        (torch.uint8, ("nearest", "nearest-exact")),
    ],
    ids=str,
)
def test_images_of_other_types_keep_them(
    dtype: torch.dtype, modes: tuple[str, ...], tmp_path: Path
) -> None:
    sizes: tuple[Words, ...] = ({"size": (9, 4)}, {"scale_factor": (0.5, 1.7)})
    module = Resizing(*({"mode": mode, **size} for mode in modes for size in sizes))
    image = images(5, 11, dtype=dtype)
    file = written(module, tmp_path, image)
    assert "Resize" not in operators(file)
    # A sum that ends in float16 is rounded once, as PyTorch's is.
    most = {torch.float16: 1, torch.float64: MOST, torch.uint8: 0}[dtype]
    assert {name: far for name, far in distances(module, file, image) if far > most} == {}


def test_nan_and_infinite_pixels_are_seen_where_pytorch_sees_them(tmp_path: Path) -> None:
    """Times 0 a pixel counts nothing, and an infinite one or NaN makes NaN of the others."""
    module = Resizing(
        *({"mode": "bilinear", "size": size} for size in ((9, 4), (3, 3), (10, 10))),
        {"mode": "bilinear", "size": (3, 7), "antialias": True},
    )
    image = images(5, 5).repeat(25, 1, 1, 1)
    for row, number in enumerate((np.nan, np.inf, -np.inf)):
        for place in range(25):
            image[3 * place + row].view(2, -1)[0, place] = number
    file = written(module, tmp_path, image)
    wanted = {name: value.numpy() for name, value in module(image).items()}
    for engine in ENGINES:
        got = rw.load(file, engine=engine, canary=False).step({"obs": image.numpy()})
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


def test_nan_spreads_to_the_neighbours_that_a_cubic_image_reads(tmp_path: Path) -> None:
    """In an image of the same size, too, where all but the pixel itself are taken times 0."""
    module, image = Resizing({"mode": "bicubic", "size": (6, 5)}), images(6, 5)
    image[..., 3, 2] = np.nan
    file = written(module, tmp_path, image)
    wanted = module(image)["way_0"].isnan().numpy()
    assert wanted.sum() > 6
    for engine in ENGINES:
        got = rw.load(file, engine=engine, canary=False).step({"obs": image.numpy()})
        assert np.array_equal(np.isnan(got["way_0"]), wanted), engine


def test_image_of_open_size_is_left_to_onnxruntime(tmp_path: Path) -> None:
    """Where infinite pixels go is PyTorch's for neither, and the certificate says so."""

    class Fixed(nn.Module):
        def forward(self, obs: Tensor) -> Tensor:
            return functional.interpolate(obs, size=6, mode="linear")

    said = {}
    for name, dynamic in (("open", {"obs": {2: "length"}}), ("fixed", None)):
        bundle = rw.export(
            Fixed(), tmp_path / name, example={"obs": images(9)[:1]}, dynamic=dynamic
        )
        notes = json.loads(bundle.files["certificate.json"])["findings"]
        said[name] = [each["what"].split()[0] for each in notes]
    assert operators(tmp_path / "open" / POLICY).count("Resize") == 1
    assert said == {"open": ["upsample_linear1d"], "fixed": ["upsample_linear1d"]}
    policy = rw.load(tmp_path / "open")
    for length in (9, 4):
        obs = images(length)
        got = policy.step({"obs": obs.numpy()})["actions"]
        np.testing.assert_allclose(got, Fixed()(obs), atol=1e-5)


class Atari(nn.Module):
    """A small network on frames of 210 × 160 that it makes smaller itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Conv2d(1, 4, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(400, 6),
        )  # fmt: skip

    def forward(self, frame: Tensor) -> Tensor:
        small = functional.interpolate(frame, (84, 84), mode="bilinear")
        out: Tensor = self.net(small)
        return out


def test_policy_that_makes_its_frames_smaller_is_certified(tmp_path: Path) -> None:
    module, frame = Atari().eval(), torch.rand(1, 1, 210, 160)
    bundle = rw.export(module, tmp_path / "b", example={"frame": frame}, targets=ENGINES)
    assert bundle.certificate.passed
    assert "Resize" not in operators(tmp_path / "b" / POLICY)
    with torch.no_grad():
        wanted = module(frame).numpy()
    for engine in ENGINES:
        got = rw.load(tmp_path / "b", engine=engine).step({"frame": frame.numpy()})["actions"]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
