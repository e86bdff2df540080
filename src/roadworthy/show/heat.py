"""Heat maps as SVG, and strips of colour as small PNG images."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from roadworthy.show.axes import px
from roadworthy.spec.html import Html, tag
from roadworthy.spec.port import Array


def heat_map(values: Array, rows: Sequence[str], columns: Sequence[str]) -> Html:
    """(rows, columns) as squares: blue below zero, orange above, stronger where it is more."""
    longest = max(len(name) for name in rows)
    left = min(220, 16 + 6.2 * longest)
    cell = min(28.0, max(9.0, (860 - left) / len(columns)))
    above = min(150.0, 12 + 5.6 * max(len(name) for name in columns))
    width, height = left + cell * len(columns) + 8, above + max(cell, 14) * len(rows) + 8
    high = float(np.abs(values).max()) or 1.0
    tall = max(cell, 14)
    parts = []
    for place, name in enumerate(columns):
        x = left + cell * (place + 0.5) + 3
        turned = f"rotate(-60 {px(x)} {px(above - 5)})"
        parts.append(tag("text", name, class_="tick", x=px(x), y=px(above - 5), transform=turned))
    for row, name in enumerate(rows):
        y = above + tall * row
        parts.append(tag("text", name, class_="tick end", x=px(left - 6), y=px(y + tall / 2 + 4)))
        for place, value in enumerate(values[row].tolist()):
            said = tag("title", f"{columns[place]} → {name}: {value:+.3g}")
            kind = "more" if value > 0 else "less"
            parts.append(
                tag(
                    "rect",
                    said,
                    class_=f"cell {kind}",
                    x=px(left + cell * place),
                    y=px(y),
                    width=px(cell - 1),
                    height=px(tall - 1),
                    fill_opacity=round(math.sqrt(abs(value) / high), 2),
                )
            )
    box = f"0 0 {width:.0f} {height:.0f}"
    return tag(
        "svg",
        parts,
        class_="chart heat",
        viewBox=box,
        role="img",
        aria_label="which inputs move which outputs",
        style=f"max-width:{width:.0f}px",
    )


def image_strip(values: Array) -> Html:
    """(elements, steps) as a picture, dark blue for the least and yellow for the most."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    part = np.nan_to_num((values - low) / ((high - low) or 1.0))
    # Between three colours that people of every colour vision tell apart.
    stops = np.asarray([(0, 34, 78), (124, 123, 120), (253, 231, 55)], dtype=float)
    colours = np.stack(
        [np.interp(part, (0, 0.5, 1), stops[:, channel]) for channel in range(3)], axis=-1
    ).astype(np.uint8)
    data = base64.b64encode(_png(colours)).decode()
    words = f"{len(values)} elements from {low:.3g} (dark) to {high:.3g} (bright)"
    return tag(
        "img",
        class_="strip",
        alt=words,
        title=words,
        src=f"data:image/png;base64,{data}",
        style=f"height:{min(200, max(24, 6 * len(values)))}px",
    )


def _png(pixels: Array) -> bytes:
    """The bytes of a PNG file: (rows, columns, 3) of uint8."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines, 9))
        + chunk(b"IEND", b"")
    )
