"""Checkpoints: from a file, and what lies beside it, to a `Reading`; nothing in it is run.

A framework is a row: how it is recognised by what the file holds, and how it is read. Both get the
same `Contents`, which are opened once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roadworthy.checkpoints.opening import Contents
from roadworthy.checkpoints.reading import UNEXPLAINED, listed
from roadworthy.errors import UsageError

if TYPE_CHECKING:
    from roadworthy.checkpoints.reading import Answers, Loaded, Reading
    from roadworthy.source import Source

    Recognise = Callable[[Contents], str | None]
    Read = Callable[[Contents, Answers], Reading]
    Live = Callable[[Contents, Answers], Loaded]
    Predicting = Callable[[Contents, Answers, Source], Source | str]


@dataclass(frozen=True, slots=True)
class Framework:
    """One row: the name, and the module that has these two functions.

    recognise(contents)      why it looks like a file of the framework; None where it does not
    read(contents, answers)  the reading; asks `answers` for all that the file does not say

    Two more are for files that the user trusts, where the framework itself may be asked:
    live(contents, answers)                what the framework loads, if it can
    predicting(contents, answers, source)  a source that takes and gives what `source` does, by the
                                           framework's own predict; in words, why there is none
    """

    name: str
    module: str

    def recognise(self, contents: Contents) -> str | None:
        found: Recognise = importlib.import_module(self.module).recognise
        return found(contents)

    def read(self, contents: Contents, answers: Answers) -> Reading:
        found: Read = importlib.import_module(self.module).read
        return found(contents, answers)

    def live(self, contents: Contents, answers: Answers) -> Loaded | None:
        """What the installed framework loads; None where it is not asked."""
        found: Live | None = getattr(importlib.import_module(self.module), "live", None)
        return None if found is None else found(contents, answers)

    def predicting(self, contents: Contents, answers: Answers, source: Source) -> Source | str:
        """The framework's own predict as a source, or why it is not asked."""
        found: Predicting = importlib.import_module(self.module).predicting
        return found(contents, answers, source)


# The more particular ones first: a bare state_dict is what is left when nobody knows it.
FRAMEWORKS = (
    Framework("Stable-Baselines3", "roadworthy.checkpoints.sb3"),
    Framework("rsl_rl", "roadworthy.checkpoints.rsl_rl"),
    Framework("rl_games", "roadworthy.checkpoints.rl_games"),
    Framework("Sample-Factory", "roadworthy.checkpoints.sample_factory"),
    Framework("Tianshou", "roadworthy.checkpoints.tianshou"),
    Framework("skrl", "roadworthy.checkpoints.skrl"),
    Framework("CleanRL", "roadworthy.checkpoints.cleanrl"),
    Framework("a bare state_dict", "roadworthy.checkpoints.bare"),
)


_OPTIMIZER = {"state", "param_groups"}


def framework_of(contents: Contents) -> Framework:
    """The row whose framework wrote the file, or an error that lists what nobody explains."""
    for row in FRAMEWORKS:
        if row.recognise(contents):
            return row
    if isinstance(contents.tree, Mapping) and set(contents.tree) == _OPTIMIZER:
        raise UsageError(
            "this is the state of an optimizer, not a policy", where=contents.where,
            code=UNEXPLAINED, hint="pass the file of the weights, which lies beside it",
        )  # fmt: skip
    raise UsageError(
        f"no framework writes such a file: it holds {outline(contents)}",
        where=contents.where,
        code=UNEXPLAINED,
        hint=f"known: {', '.join(row.name for row in FRAMEWORKS)}; otherwise load it in Python and "
        "pass the module: rw.export(module, folder, example=…)",
    )


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file is, as far as it and the answers say."""
    reading = framework_of(contents).read(contents, answers)
    answers.refuse_unasked()
    return reading


def outline(contents: Contents) -> str:
    """What is in a file that nobody knows, in one line."""
    if contents.kind == "zip":
        return f"the files {listed(list(contents.members))}"
    if isinstance(contents.tree, Mapping):
        return f"the keys {listed([str(key) for key in contents.tree])}"
    return f"a {type(contents.tree).__name__}"
