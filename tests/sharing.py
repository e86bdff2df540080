"""Which tests run in one worker because they share an export.

xdist's own `--dist loadgroup` writes the group into an attribute that pytest 9.2 no longer reads,
and then every worker exports everything. This scheduler asks the test's id instead.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

from tests.environment.environments import ENVIRONMENTS
from tests.policies import CASES

# Beginning of a test id → what the tests behind it share, and takes seconds to make.
TOGETHER = {
    "tests/targets/test_aoti.py": "every target",
    "tests/targets/test_every_target.py": "every target",
    "tests/environment/test_contract.py": "the tutorial's contract",
    "tests/environment/test_evaluate.py": "evaluate",
    "tests/environment/test_session.py": "sessions",
    "tests/envs/test_play.py": "play",
    "tests/show/playground/": "sites",
    "tests/show/test_compare.py": "compare",
    "tests/adapters/mjlab/": "mjlab",
    "tests/test_examples.py::test_pong": "pong",
    "tests/test_examples.py::test_ppo": "ppo",
}


def policy(test: str) -> str | None:
    """The policy of the registry that is a parameter of the test; None if there is none."""
    return next((word for word in _parameters(test) if word in CASES), None)


def group(test: str) -> str:
    """What the test shares with others; its own id if it shares nothing that takes long."""
    if test.startswith("tests/environment/"):
        styles = [word for word in _parameters(test) if word in ENVIRONMENTS]
        if styles:
            return f"environment {styles[0]}"
    shared = (name for start, name in TOGETHER.items() if test.startswith(start))
    return policy(test) or next(shared, test)


def _parameters(test: str) -> list[str]:
    return test.partition("[")[2].removesuffix("]").split("-")


class ByExport(LoadScopeScheduling):
    """A scheduler that sends all tests of one group to one worker, the largest group first."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)
