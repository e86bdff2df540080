"""Which lines of the author's a call on the example runs: findings are about these."""

from __future__ import annotations

from pathlib import Path

import torch

from roadworthy.capture.call_style import call_style
from roadworthy.capture.export_mode import analysis_mode
from roadworthy.capture.source import Attribute, Source
from roadworthy.inspection.first_call import FirstCall
from roadworthy.inspection.reach import root
from roadworthy.inspection.snapshot import preserved
from roadworthy.inspection.trail import Trail
from roadworthy.spec.layout import pack

Lines = frozenset[tuple[str, int]]


def reached_lines(source: Source) -> Lines | None:
    """File and line of all that two calls run; None where the module does not run."""
    trail = Trail()
    tensors = source.tensors
    values = {name: pack(layout, tensors) for name, layout in source.inputs.items()}
    first = FirstCall([root("", source.module)])
    try:
        with analysis_mode(source), preserved(source.module), torch.no_grad(), first.watching():
            memory = [n for n, v in source.memory.items() if not isinstance(v, Attribute)]
            style = call_style(source, memory)
            with trail.followed():
                for _ in range(2):  # what is built once is not built by the second
                    style.call(source.function, values, source.named)
    except Exception:  # the export says why; until then all of the code may matter
        return None
    finally:
        first.undo()
    return frozenset(
        (Path(code.co_filename).name, line)
        for code, offsets in trail.steps.items()
        for start, end, line in code.co_lines()
        if line is not None and any(offset in offsets for offset in range(start, end, 2))
    )
