"""What frameworks, checkpoints and simulators write is certified as C: a sample of the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

SOME = (
    "TorchRL: TanhNormal, bounds", "TorchRL: MaskedCategorical",
    "checkpoints: rsl_rl-3.3.0 lstm", "benchmarks: environment of sixty operators around the MLP",
)  # fmt: skip


@pytest.mark.framework
@pytest.mark.parametrize("name", SOME)
def test_it_is_certified_as_c(name: str, tmp_path: Path) -> None:
    import c_coverage

    exports = {f"{family}: {each}": export for family, each, export in c_coverage.everything()}
    assert c_coverage.outcome(exports[name], tmp_path / "bundle") == {"outcome": "certified"}
