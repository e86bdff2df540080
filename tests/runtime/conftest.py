"""A new policy for every test, from bundles that are exported once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.errors import PortMismatch
from tests.conftest import Exported

Load = Callable[[str], rw.Policy]


@pytest.fixture
def load(export_once: Callable[[str], Exported]) -> Load:
    """A new policy of a case of the registry."""
    return lambda name: rw.load(export_once(name).folder)


def obs(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def refusal(policy: rw.Policy, inputs: Any) -> list[str]:
    with pytest.raises(PortMismatch) as caught:
        policy.step(inputs)
    assert str(caught.value) == "\n".join(str(each) for each in caught.value.findings)
    return [str(finding) for finding in caught.value.findings]
