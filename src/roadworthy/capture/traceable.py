"""PyTorch set up so that a graph can be written down, and set back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.distributions import Distribution

from roadworthy.quiet import quiet


@contextmanager
def traceable() -> Iterator[None]:
    """Without gradients, without shortcuts that a graph cannot hold, and without noise."""
    # The fast path of multi-head attention is one opaque operator that ONNX does not have.
    fast = torch.backends.mha.get_fastpath_enabled()
    # A distribution looks at the values of its parameters to validate them; a graph has none.
    validate = Distribution._validate_args
    torch.backends.mha.set_fastpath_enabled(False)
    Distribution.set_default_validate_args(False)
    try:
        with torch.no_grad(), quiet():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        Distribution.set_default_validate_args(validate)
