"""What moves and does not matter, as the user says."""

from __future__ import annotations

from collections.abc import Iterable

from roadworthy.environment.paths import find
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import Finding, UsageError, did_you_mean

# What moves and would be frozen; nothing else can be waved through.
_FROZEN = "RW121"


def not_ignored(source: EnvironmentSource, findings: Iterable[Finding]) -> list[Finding]:
    """The findings but those about attributes that `ignore` names; an unknown name is refused."""
    places, _ = find(source.roots)
    known = {place.public(source.roots) for place in places.values()} | set(places)
    for name in source.ignore:
        if not any(_named(path, name) for path in known):
            last = sorted({path.rpartition(".")[2] for path in known})
            raise UsageError(
                f"ignore: the environment has no attribute {name!r}",
                hint=did_you_mean(name, last),
            )
    return [each for each in findings if not _ignored(each, source.ignore)]


def _ignored(finding: Finding, names: tuple[str, ...]) -> bool:
    path = finding.where.partition(" at ")[0]
    return finding.code == _FROZEN and any(_named(path, name) for name in names)


def _named(path: str, name: str) -> bool:
    """Whether a name means a path: by all of it, or by its end (`env.robot.age` is `age`)."""
    return path == name or path.endswith(f".{name}")
