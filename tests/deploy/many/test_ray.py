"""The same tasks on a Ray cluster of two nodes, one of which is lost half-way."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roadworthy.cli.running import perform
from roadworthy.deploy.many.local import run_local
from roadworthy.deploy.many.ray import run_ray
from roadworthy.deploy.many.task import Task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.framework,
    pytest.mark.long,  # two minutes: two nodes start, and one of them is lost
    pytest.mark.filterwarnings("ignore"),  # of Ray's own sockets and processes
]
SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


def tasks(workshop: Path, out: str, names: tuple[str, ...]) -> list[Task]:
    return [
        Task(
            name=name, words=("export", f"pol.py:{name}", "-o", f"{out}/{name}"),
            cwd=str(workshop), key=name, record=str(workshop / f"{name}.json"),
        )
        for name in names
    ]  # fmt: skip


def sums(folder: Path) -> dict[str, str]:
    return {
        path.parent.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("*/SHA256SUMS")
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args=SMALL)
    yield made
    made.shutdown()


def test_a_lost_node_costs_nothing_but_time(cluster: Any, workshop: Path) -> None:
    second = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    names = ("one", "two", "broken", "three", "four")
    codes = {}
    for outcome in run_ray(perform, tasks(workshop, "ray", names), cluster.address):
        codes[outcome.task.name] = outcome.code
        if len(codes) == 1:
            cluster.remove_node(second, allow_graceful=False)
        if outcome.code:
            assert "no such checkpoint" in json.loads(outcome.printed)["error"][0]["what"]
    assert codes == {"one": 0, "two": 0, "broken": 2, "three": 0, "four": 0}

    for outcome in run_local(perform, tasks(workshop, "here", ("one", "four")), 1):
        assert outcome.code == 0, outcome.printed
    here, there = sums(workshop / "here"), sums(workshop / "ray")
    assert sorted(there) == ["four", "one", "three", "two"]
    assert here == {name: there[name] for name in here}
    assert not [each for each in (workshop / "ray").iterdir() if ".partial-" in each.name]

    # Whoever stops in the middle finds nothing half-written.
    for _ in run_ray(perform, tasks(workshop, "stopped", ("one", "two")), cluster.address):
        break
    gc.collect()
    left = {each.name for each in (workshop / "stopped").iterdir()}
    assert left == set(sums(workshop / "stopped"))
