"""`roadworthy inspect` of a checkpoint: what the file says, and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.cli.console import out, print_json, table
from roadworthy.errors import need

if TYPE_CHECKING:
    from roadworthy.frameworks.reading import Reading


def show(path: Path, said: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints what the checkpoint is, who says what, and every question that is still open."""
    need("torch", extra="export")
    from roadworthy.frameworks import framework_of, read_checkpoint
    from roadworthy.frameworks.checkpoint import answers_from
    from roadworthy.frameworks.files.opening import open_checkpoint

    contents = open_checkpoint(path)
    row = framework_of(contents)
    reading = read_checkpoint(contents, answers_from(**said))
    if as_json:
        print_json(_json(reading, row.recognise(contents)))
        return
    console = out()
    listed = table("", "", title=f"{path.name}: {reading.framework}")
    for name, value in _rows(reading, row.recognise(contents)):
        listed.add_row(name, value)
    console.print(listed, "")
    if reading.facts:
        known = table("fact", "value", "who says so", title="What changes the actions")
        for fact in reading.facts:
            known.add_row(fact.name, fact.value, fact.source)
        console.print(known, "")
    if reading.questions:
        asked = table("open", "what it is", "how to answer", title="Questions")
        for question in reading.questions:
            asked.add_row(question.name, question.what, question.answer)
        console.print(asked, "")
    next_step = f"next: roadworthy export {path} -o {path.stem}"
    console.print(next_step + "".join(
        f" --assume {each.name}=…" for each in reading.questions), style="dim", soft_wrap=True
    )  # fmt: skip


def _rows(reading: Reading, reason: str | None) -> list[tuple[str, str]]:
    from roadworthy.frameworks.reading import UNKNOWN_VERSION

    rows = [
        ("recognised", reason or ""),
        ("version", reading.version or UNKNOWN_VERSION),
        ("algorithm", reading.algorithm or "not in the file"),
        ("architecture", reading.architecture),
        ("observation", str(reading.observation or "not in the file")),
        ("action", str(reading.action or "not in the file")),
        ("outputs", ", ".join(reading.outputs)),
    ]
    for port, each in reading.normalizers.items():
        formula = (type(each).__doc__ or "").partition(":")[0].strip("`")
        rows.append((f"normaliser of {port}", f"{formula}, eps {each.eps:g}, clip {each.clip}"))
    if reading.unexplained:
        rows.append(("UNEXPLAINED", ", ".join(reading.unexplained)))
    return rows


def _json(reading: Reading, reason: str | None) -> dict[str, Any]:
    return {
        **reading.to_json(),
        "recognised": reason,
        "observation": None if reading.observation is None else str(reading.observation),
        "action": None if reading.action is None else str(reading.action),
        "normalizers": {port: each.to_json() for port, each in reading.normalizers.items()},
        "outputs": list(reading.outputs),
        "questions": [{**asdict(each), "answer": each.answer} for each in reading.questions],
        "unexplained": list(reading.unexplained),
    }


def origin_rows(origin: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What `inspect` of a bundle says of the checkpoint that it was made from."""
    written = f"{origin['framework']} {origin['version']}, {origin['algorithm']}".rstrip(", ")
    rows = [("checkpoint", written)]
    by_source: dict[str, list[str]] = {}
    for fact in origin["facts"]:
        by_source.setdefault(fact["source"], []).append(f"{fact['name']}={fact['value']}")
    for source, said in by_source.items():
        rows.append(("ASSUMED" if source == "assumed" else "", f"{', '.join(said)} ({source})"))
    return rows
