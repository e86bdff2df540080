"""What may be compiled, or opened as code: judged here, on the very bytes, and nowhere else.

Compilers and the readers of `.pt2` files take `TrustedCode` alone. It is made from a stranger's
files where the caller trusts them, or from C that this process wrote: never from a file's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, final

from roadworthy.errors import BundleError
from roadworthy.spec import targets

if TYPE_CHECKING:
    from roadworthy.targets.c.source import Code

_MAKER: Final = object()


@final
@dataclass(frozen=True, slots=True, eq=False)
class TrustedCode(Mapping[str, bytes]):
    """File name → the bytes that may run in this process. Only this module makes one."""

    _files: Mapping[str, bytes] = field(repr=False)
    maker: InitVar[object] = None

    def __post_init__(self, maker: object) -> None:
        if maker is not _MAKER:
            raise TypeError("only roadworthy.runtime.trust says what is trusted")
        object.__setattr__(self, "_files", MappingProxyType(dict(self._files)))

    def __getitem__(self, name: str) -> bytes:
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def without_folders(self, *names: str) -> TrustedCode:
        """Those of the files, as they lie beside each other in one folder."""
        flat = {path.rpartition("/")[2]: data for path, data in self._files.items()}
        return TrustedCode({name: flat[name] for name in names}, _MAKER)


def judged_files(
    target: str, files: Mapping[str, bytes], *, trust: bool, where: str
) -> Mapping[str, bytes]:
    """The files of a target, as trusted code where the target is code; refused without trust."""
    row = targets.get(target)
    if not row.code:
        return files
    if not trust:
        raise BundleError(
            f"the file is code: {row.code}",
            code="RW211",
            where=where,
            hint="pass trust=True (--trust), only for files that you made or whose origin you know",
        )
    return TrustedCode(files, _MAKER)


def written(code: Code) -> TrustedCode:
    """The C of a graph, for an engine: its text holds numbers of the file and none of its words."""
    from roadworthy.targets.c.source import engine_source  # an engine without C starts without it

    return written_here({"policy.c": engine_source(code)})


def written_here(texts: Mapping[str, str]) -> TrustedCode:
    """C that Roadworthy has just written, or brings along; never what came with a file."""
    return TrustedCode({name: text.encode() for name, text in texts.items()}, _MAKER)


def demanded(files: Mapping[str, bytes]) -> TrustedCode:
    """The files, if they were judged to be trusted: what every door to running code asks."""
    if not isinstance(files, TrustedCode):
        raise TypeError("this would be run: roadworthy.runtime.trust must judge it first")
    return files
