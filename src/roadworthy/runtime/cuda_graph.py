"""One step on a device as one thing to launch: a CUDA graph, recorded once for each batch size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from roadworthy.errors import Finding, RoadworthyWarning, need

# Calls before the recording: libraries choose their kernels and allocate in the first ones.
WARM_CALLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One step in three parts, over buffers that never move.

    begin    brings inputs to the device
    compute  gives the results, and changes nothing
    commit   copies results to where they are read: memory, and the host
    """

    begin: Callable[[], None]
    compute: Callable[[], Sequence[Any]]
    commit: Callable[[Sequence[Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What runs the work once more, and the results, at addresses that stay.

    `replays`: it reads again what lies at the addresses that the work read, whoever is there now.
    """

    run: Callable[[], None]
    results: Sequence[Any]
    replays: bool = False


def recorded(work: Work, device: Any, *, where: str) -> Recording:
    """The work as one CUDA graph; operator by operator on other devices.

    So it is too, with a warning, where an operator waits for the device: no graph can hold that.
    """
    if device.type != "cuda":
        return followed(work, device)
    try:
        return captured(work, device)
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0]
        finding = Finding(
            code="RW215",
            where=where,
            what=f"a step cannot be one CUDA graph and runs operator by operator: {first}",
            hint="a value decides about a size in it, or is read by the host: boolean masks as an "
            "index, nonzero, item",
            severity="warning",
        )
        warnings.warn(str(finding), RoadworthyWarning, stacklevel=2)
        return followed(work, device)


def captured(work: Work, device: Any) -> Recording:
    """The work as one CUDA graph; nothing of it has happened yet."""
    torch: Any = need("torch", extra="export")
    outer = torch.cuda.current_stream(device)
    own = torch.cuda.Stream(device)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device), as_exported(device):
            own.wait_stream(outer)
            with torch.cuda.stream(own):
                for _ in range(WARM_CALLS):
                    work.compute()
            outer.wait_stream(own)
            with torch.cuda.graph(graph, stream=own, capture_error_mode="thread_local"):
                work.begin()
                results = work.compute()
                work.commit(results)
    finally:
        # A capture that fails leaves its own stream as the current one.
        if torch.cuda.current_stream(device) != outer:
            torch.cuda.set_stream(outer)
    return Recording(run=graph.replay, results=results, replays=True)


def followed(work: Work, device: Any) -> Recording:
    """The work operator by operator, with results at addresses that stay."""
    with as_exported(device):
        kept = [result.clone() for result in work.compute()]

    def run() -> None:
        with as_exported(device):
            work.begin()
            for buffer, result in zip(kept, work.compute(), strict=True):
                buffer.copy_(result)
            work.commit(kept)

    return Recording(run=run, results=kept)


@contextmanager
def as_exported(device: Any) -> Iterator[None]:
    """The arithmetic of the export, whatever the process has set for its own.

    No gradients, no autocast, float32 products in float32 (not TF32), attention as it is written,
    kernels that give the same bits again. Kernels are chosen while a graph is recorded, so that
    replays keep to them.
    """
    torch: Any = need("torch", extra="export")
    attention: Any = need("torch.nn.attention", extra="export")
    cudnn = torch.backends.cudnn
    settings = (
        (torch.backends.cuda.matmul, "fp32_precision", "ieee"),
        (cudnn.conv, "fp32_precision", "ieee"),
        (cudnn.rnn, "fp32_precision", "ieee"),
        (cudnn, "benchmark", False),
        (cudnn, "deterministic", True),
    )
    before = [getattr(holder, name) for holder, name, _ in settings]
    try:
        for holder, name, value in settings:
            setattr(holder, name, value)
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            torch.autocast(device.type, enabled=False),
            attention.sdpa_kernel(attention.SDPBackend.MATH),
        ):
            yield
    finally:
        for (holder, name, _), value in zip(settings, before, strict=True):
            setattr(holder, name, value)
