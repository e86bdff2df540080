"""What the captured graph reads of the module's weights, and what it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from roadworthy.errors import Finding
from roadworthy.rules.patient import Patient

_SPARE = re.compile(r"target|critic|value|ema|old|_bar")
_ACTS = re.compile(r"actor|policy|pi$")


def unread(patient: Patient) -> Iterator[Finding]:
    """Weights that the outputs do not depend on: a critic, a target network."""
    read, unread = _parts(patient)
    left_out = {name: size for name, size in unread.items() if name not in read}
    for name in left_out:
        twin = next((part for part in read if _SPARE.search(part) and _twins(part, name)), None)
        if twin is not None:
            yield Finding(
                code="RW167",
                where=patient.name,
                what=f"the outputs come from {twin!r}, and {name!r} is not used",
                hint=f"if {name!r} is the trained policy, export a module whose forward calls it",
                severity="warning",
            )
    if left_out:
        listed = ", ".join(f"{name} ({size:,} numbers)" for name, size in left_out.items())
        yield Finding(
            code="RW166",
            where=patient.name,
            what=f"the outputs do not use {listed}; it stays out of the artifact",
            severity="note",
        )


def _twins(spare: str, name: str) -> bool:
    """Whether the one is the copy of the other: `actor_target` and `actor`."""
    bare = _SPARE.sub("", spare).strip("_")
    return bool(_ACTS.search(name)) and bare in (name, "")


def _parts(patient: Patient) -> tuple[dict[str, int], dict[str, int]]:
    """Direct parts of the module → how many numbers the graph reads of each, and does not."""
    if patient.program is None:
        return {}, {}
    graph = patient.program.graph
    used = {node.name: bool(node.users) for node in graph.graph.nodes if node.op == "placeholder"}
    places = graph.graph_signature.inputs_to_parameters
    read: dict[str, int] = {}
    unread: dict[str, int] = {}
    for node, place in places.items():
        path = place.removeprefix("composed.module.")
        if path == place:
            continue
        side = read if used[node] else unread
        part = path.partition(".")[0]
        side[part] = side.get(part, 0) + graph.state_dict[place].numel()
    return read, unread
