"""The one door: `to_source`, from what a user holds to something that can be exported."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.errors import Finding, UsageError, did_you_mean, need
from roadworthy.errors.unforeseen import answers
from roadworthy.frameworks import COMMON, adapter_for
from roadworthy.frameworks.unreadable import unreadable

if TYPE_CHECKING:
    from roadworthy.capture.source import Source
    from roadworthy.frameworks import Described

# The fields of `rw.Source` that are keywords of a call.
KEYWORDS = (*COMMON, "method", "constants")


@answers
def to_source(thing: Any, **keywords: Any) -> Described:
    """The source of anything that an adapter knows, or of a plain module.

    `thing` is a module, a policy or model of a known framework, an environment, the path of a
    checkpoint, or a `Source`, which already says everything. The keywords are those of `rw.export`.
    """
    torch: Any = need("torch", extra="export")
    from roadworthy.capture.source import Source
    from roadworthy.environment.source import EnvironmentSource

    # Of the steps behind a policy none is the same as nothing said; of transforms it is not.
    given = {
        name: value
        for name, value in keywords.items()
        if value is not None and (name, value) != ("action", ())
    }
    if isinstance(thing, (Source, EnvironmentSource)):
        if given:
            raise UsageError(
                f"given twice, in the Source and beside it: {', '.join(given)}",
                hint="set every option in rw.Source(…) alone",
            )
        return thing
    if isinstance(thing, str):
        thing = Path(thing)
    adapter = adapter_for(thing, given)
    if adapter is None:
        if isinstance(thing, Path):
            raise unreadable(thing)
        if not isinstance(thing, torch.nn.Module):
            raise UsageError(
                f"expected a torch.nn.Module, got {type(thing).__name__}",
                hint="wrap a function in a module, so that its weights can be found"
                if inspect.isroutine(thing)
                else "pass the module that acts, such as runner.alg.policy",
            )
        refuse_unknown(KEYWORDS, given, f"a plain {type(thing).__name__}")
        return plain_module(thing, **given)
    describe = adapter.load()
    refuse_unknown(adapter.keywords(), given, adapter.noun or f"a {adapter.name} policy")
    made = describe(thing, **given)
    if not isinstance(made, (Source, EnvironmentSource)):
        raise UsageError(
            f"the adapter {adapter.name!r} returned a {type(made).__name__}, expected a Source",
            hint="its describe function must return rw.Source(module, example=…)",
        )
    return made


def refuse_unknown(known: Sequence[str], given: Mapping[str, Any], whom: str) -> None:
    """An error for every keyword that is not known."""
    special = [name for name in known if name not in COMMON]
    findings = [
        Finding(
            code="RW001",
            where=f"export(…, {keyword}=…)",
            what=f"{whom} takes no {keyword!r}",
            hint=_advice(keyword, known, special),
        )
        for keyword in given
        if keyword not in known
    ]
    if findings:
        raise UsageError(findings=findings)


def _advice(keyword: str, known: Sequence[str], special: list[str]) -> str:
    for names in (special, known):
        near = did_you_mean(keyword, names)
        if near.startswith("did"):
            return near
    if not special:
        return near
    return f"beyond the common keywords it takes {', '.join(special)}"


def plain_module(module: Any, **given: Any) -> Source:
    """The source of a module that belongs to no framework."""
    from roadworthy.capture.source import Source

    if "example" not in given:
        raise UsageError(
            "the example is missing: an export needs a value for every input",
            hint="pass example={'obs': torch.zeros(1, 48)}, batch axis first",
        )
    return Source(module, **given)
