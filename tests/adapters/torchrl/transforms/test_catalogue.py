"""Every transform of the installed TorchRL is in exactly one group: none can slip through."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torchrl.envs.transforms as package
from torchrl.envs.transforms import Compose, ObservationNorm, Transform

from roadworthy.errors import ExportError
from roadworthy.frameworks.torchrl.transforms import catalogue, stage_builder, stages

ENTRIES = catalogue.ENTRIES
DOCS = Path(__file__).parents[4] / "docs" / "torchrl-transforms.md"


def subclasses(kind: type[Transform]) -> Iterator[type[Transform]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def known_to_torchrl() -> set[str]:
    """The transforms of the package itself, and those that it gives out."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found = {each for each in subclasses(Transform) if each.__module__.startswith("torchrl.")}
    own = {each.__name__ for each in found if each.__module__.startswith(package.__name__)}
    given = {each.__name__ for each in found if hasattr(package, each.__name__)}
    return (own | given) - {Compose.__name__}


def in_group(*groups: str) -> set[str]:
    return {name for name, entry in ENTRIES.items() if entry.group in groups}


def test_every_transform_of_torchrl_has_its_group() -> None:
    assert known_to_torchrl() == set(ENTRIES)


def test_what_is_exact_has_a_stage_and_the_rest_has_none() -> None:
    built = {*stage_builder.OBSERVATION, *stage_builder.ACTION}
    assert built == in_group("exact", "memory")
    assert set(stage_builder.IDEMPOTENT) <= set(stage_builder.ACTION)


def test_all_refused_classes_are_reported_at_once_with_what_to_do() -> None:
    classes = {each.__name__: each for each in subclasses(Transform)}
    refused = sorted(in_group("refused"))
    # Most need a network, a tokenizer or a cluster; what they are is enough to refuse them.
    chain = [object.__new__(_concrete(classes[name])) for name in refused]
    with pytest.raises(ExportError) as caught:
        stages(chain, in_keys=["observation"], action_key="action")
    findings = caught.value.findings
    assert [f.what.split()[0] for f in findings] == refused
    assert [f.hint for f in findings] == [ENTRIES[name].note for name in refused]
    assert all(f.code == "RW150" and f.hint for f in findings)
    assert findings[1].where == f"transforms[1] {refused[1]}"


def _concrete(kind: type[Transform]) -> type[Transform]:
    """A class of the same name and module, of which an object can be made without parts."""
    return type(kind.__name__, (), {"__module__": kind.__module__})


class Squared(ObservationNorm):
    """A user's own transform: it looks like a known one, and computes something else."""


def test_a_transform_of_the_users_own_is_refused_with_a_question() -> None:
    chain = [Squared(loc=0.0, scale=1.0, in_keys=["observation"]), abs]
    with pytest.raises(ExportError) as caught:
        stages(chain, in_keys=["observation"], action_key="action")
    assert str(caught.value) == (
        "[RW150] transforms[0] Squared: Squared is not one of TorchRL's transforms; "
        "does the policy need what it computes?\n"
        "  → if so, move it into the policy as a TensorDictModule; if not, pass a list without it\n"
        "[RW150] transforms[1] builtin_function_or_method: builtin_function_or_method is not one "
        "of TorchRL's transforms; does the policy need what it computes?\n"
        "  → if so, move it into the policy as a TensorDictModule; if not, pass a list without it"
    )


def test_the_documentation_shows_the_table_as_it_is() -> None:
    assert catalogue.table() in DOCS.read_text()
    assert all(meaning in DOCS.read_text() for meaning in catalogue.GROUPS.values())
