"""`python docs/write_api.py docs/api.md`: the reference of every public name, off its docstring."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import roadworthy
from roadworthy import errors

WIDTH = 96
HEAD = """# The API

Every public name, as its docstring says it: written by `make docs`. A way through the library is in
[the tutorial](tutorial.md); this page is for looking things up. `rw` is `import roadworthy as rw`.

In signatures, `Array` is a NumPy array; `Numbers` a number, an array, a tensor or nested lists of
numbers; `Dim` a size, or the name of one that varies; `Layout` how ports nest in an argument;
`Table` a mapping from operators of PyTorch to functions; `Metadata` the path of a YAML file about
a robot, or a mapping of the same form; `PerJoint` pairs of a joint and a number; `Progress` a
function that is called with each stage of the work, in words.
"""
FIRST = (
    "export", "load", "verify", "Policy", "Source", "diagnose", "play", "Bundle", "Certificate",
    "RoadworthyError",
)  # fmt: skip
# Title → where the names of a theme live; the first that fits has a name.
THEMES = {
    "Describing a policy": (
        "roadworthy.capture.source",
        "roadworthy.spec.port",
        "roadworthy.api.options",
    ),
    "Normalisers and action steps": ("roadworthy.spec.transforms",),
    "Running": ("roadworthy.runtime", "roadworthy.spec.signature", "roadworthy.runtime.gym"),
    "Seeing": ("roadworthy.show", "roadworthy.show.playground", "roadworthy.spec.flight"),
    "Diagnosing": ("roadworthy.api.diagnose",),
    "Other frameworks": (
        "roadworthy.frameworks",
        "roadworthy.api.to_source",
        "roadworthy.compat",
        "roadworthy.deploy.emit",
    ),
    "Errors": ("roadworthy.errors",),
    "More": ("",),
}
INTRODUCTIONS = {
    "Normalisers and action steps": "What surrounds a network, as data that the manifest records.",
    "Errors": "Every error is a `RoadworthyError`, and its `findings` say what, where and what to "
    "do.\n\n```text\n" + "\n".join((errors.__doc__ or "").strip().splitlines()[2:]) + "\n```",
    "Whole environments": "The components are imported from `roadworthy.environment`; "
    "[environments](environments.md) tells what they are for.",
    "Exploy's names": "From `roadworthy.compat.exploy`, which has everything of "
    "`roadworthy.environment` too; [coming from Exploy](coming-from-exploy.md) tells what differs.",
    "Parts of a signature and of a certificate": "What is found inside them, from "
    "`roadworthy.spec.signature`, `roadworthy.spec.port`, `roadworthy.spec.robot` and "
    "`roadworthy.spec.certificate`.",
}
# These are handed out, not made by their users: what they hold is shown, not how they are made.
HANDED_OUT = (
    "Policy", "Bundle", "Certificate", "Check", "Difference", "Diagnosis", "Episodes",
    "FlightRecord", "PolicyComparison", "PolicyLike", "PolicyState",
)  # fmt: skip
# These are made by their users and read by the library: their members are its own affair.
HANDED_IN = ("Source", "ClosedLoop", "Adapter", "Group", "Action", "Connection")
ENVIRONMENT = ("export_environment", "discover")
PARTS = {
    "roadworthy.spec.signature": ("Action",),
    "roadworthy.spec.port": ("Port", "Memory"),
    "roadworthy.spec.robot": ("Robot", "JointAction", "ObservationTerm"),
    "roadworthy.spec.certificate": ("Check", "Difference"),
}
_ROW = re.compile(r"(\w[\w, ]*?)  +(\S.*)")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One public name: how users write it, and what it is."""

    title: str
    value: Callable[..., object]

    @property
    def anchor(self) -> str:
        """The link to its heading, as GitHub makes it."""
        return "#" + re.sub(r"[^\w-]", "", self.title.lower())

    @property
    def name(self) -> str:
        return self.title.rpartition(".")[2]


def chapters() -> dict[str, list[Entry]]:
    """Title → the names below it: first what everybody needs, then the others by theme."""
    names = [name for name in roadworthy.__all__ if name != "__version__"]
    entries = {name: Entry(f"rw.{name}", getattr(roadworthy, name)) for name in names}
    found = {"The ten to begin with": [entries.pop(name) for name in FIRST]}
    environment = [entries.pop(name) for name in ENVIRONMENT]
    themes: dict[str, list[Entry]] = {title: [] for title in THEMES}
    for entry in entries.values():
        home = entry.value.__module__
        themes[next(t for t, homes in THEMES.items() if home.startswith(homes))].append(entry)
    found |= {title: those for title, those in themes.items() if those}
    found["Whole environments"] = environment + _module("roadworthy.environment")
    own = {entry.value for entry in found["Whole environments"]}
    exploy = _module("roadworthy.compat.exploy")
    found["Exploy's names"] = [entry for entry in exploy if entry.value not in own]
    found["Parts of a signature and of a certificate"] = [
        Entry(f"{_short(module)}.{name}", getattr(importlib.import_module(module), name))
        for module, parts in PARTS.items()
        for name in parts
    ]
    return found


def _module(name: str) -> list[Entry]:
    module = importlib.import_module(name)
    return [Entry(f"{_short(name)}.{each}", getattr(module, each)) for each in module.__all__]


def _short(module: str) -> str:
    return module.rpartition(".")[2]


def document() -> str:
    """The page."""
    found = chapters()
    links = {e.title: e.anchor for entries in found.values() for e in entries}
    links |= {e.name: e.anchor for e in reversed([e for each in found.values() for e in each])}
    lines = [HEAD]
    for title, entries in found.items():
        listed = ", ".join(f"[`{entry.name}`]({entry.anchor})" for entry in entries)
        lines.append(f"- {title}: {listed}")
    for title, entries in found.items():
        lines += ["", f"## {title}"]
        if title in INTRODUCTIONS:
            lines += ["", INTRODUCTIONS[title]]
        for entry in entries:
            text = "\n".join(_entry(entry))
            lines += ["", f"### {entry.title}", "", _linked(text, links, entry)]
    return "\n".join(lines) + "\n"


def _entry(entry: Entry) -> Iterator[str]:
    value = entry.value
    if not isinstance(value, type):
        yield f"```py\n{_call(entry.title, value)}\n```\n"
        yield _prose(value)
        return
    error = issubclass(value, Exception)
    if not error and entry.name not in HANDED_OUT:
        yield f"```py\n{_call(entry.title, value)}\n```\n"
    yield _prose(value)
    if error and value.__base__ is not Exception:
        yield f"\nA kind of `{value.__base__.__name__}`." if value.__base__ else ""
    members = [*_fields(entry), *_members(value)]
    if members and not error and entry.name not in HANDED_IN:
        yield "\n" + "\n".join(members)


def _fields(entry: Entry) -> Iterator[str]:
    """The fields of a result that its docstring has no row for."""
    if dataclasses.is_dataclass(entry.value) and entry.name in HANDED_OUT:
        said = inspect.getdoc(entry.value) or ""
        for field in dataclasses.fields(entry.value):
            if not re.search(rf"^{field.name}  ", said, re.MULTILINE):
                yield f"- `{field.name}: {field.type}`"


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties of the class itself; those without a docstring together."""
    unsaid: list[str] = []
    for name, member in vars(kind).items():
        function = member.__func__ if isinstance(member, classmethod) else member
        reads = isinstance(member, (property, functools.cached_property))
        if reads:
            function = member.fget if isinstance(member, property) else member.func
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if reads:
            head = f"`{name}: {_annotation(function.__annotations__['return'])}`"
        else:
            head = f"`{_call(name, function, method=True, width=1000)}`"
        says = inspect.getdoc(function)
        if says:
            yield _filled(f"- {head}: {' '.join(says.split())}")
        else:
            unsaid.append(f"`{name}`" if reads else f"`{name}()`")
    if unsaid:
        yield _filled(f"- also {', '.join(unsaid)}")


def _filled(row: str) -> str:
    return textwrap.fill(
        row, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _call(
    name: str, value: Callable[..., object], *, method: bool = False, width: int = WIDTH
) -> str:
    """The signature, on one line where it fits, and else one line a parameter."""
    signature = inspect.signature(value)
    parts: list[str] = []
    starred = False
    for parameter in list(signature.parameters.values())[int(method) :]:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_parameter(parameter))
    returned = "" if isinstance(value, type) else f" -> {_annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) <= width:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def _parameter(parameter: inspect.Parameter) -> str:
    text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _annotation(annotation: object) -> str:
    if annotation is None:
        return "None"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    if repr(value) == "<factory>":  # a field of a dataclass that is made anew for each object
        return "…"
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and value == type(value)():
        return f"{type(value).__name__}()"
    return repr(value).replace("'", '"')


def _prose(value: object) -> str:
    """The docstring, with aligned tables as lists."""
    paragraphs = (inspect.getdoc(value) or "").split("\n\n")
    return "\n\n".join(_table(paragraph) or paragraph for paragraph in paragraphs)


def _table(paragraph: str) -> str:
    rows: list[str] = []
    for line in paragraph.splitlines():
        match = _ROW.fullmatch(line)
        if match:
            names = ", ".join(f"`{name}`" for name in match[1].split(", "))
            rows.append(f"- {names}: {match[2]}")
        elif rows and line.startswith("    "):
            rows[-1] += f" {line.strip()}"
        else:
            return ""
    return "\n".join(_filled(row) for row in rows)


def _linked(text: str, links: dict[str, str], entry: Entry) -> str:
    """The text with the names of other entries as links, outside of code blocks."""

    def link(match: re.Match[str]) -> str:
        anchor = links.get(match[1])
        return match[0] if anchor in (None, entry.anchor) else f"[{match[0]}]({anchor})"

    blocks = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    return "".join(
        block if block.startswith("```") else re.sub(r"`([\w.]+)`", link, block) for block in blocks
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
