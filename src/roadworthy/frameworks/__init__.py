"""Frameworks: what their things and files are, and how each becomes a source.

One row a framework, one folder each. In the folder `live.py` describes its objects, `file.py` reads
its checkpoints, and `oracle.py` asks the framework itself about a file that the user trusts.
Looking for the right row imports no framework. Packages of other people add adapters through the
entry-point group `roadworthy.adapters`.
"""

from __future__ import annotations

import importlib
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roadworthy.errors import UsageError
from roadworthy.frameworks.adapter import COMMON, EXPLORATIONS, Adapter, plug_ins
from roadworthy.frameworks.files.beginning import looks_like_a_checkpoint
from roadworthy.frameworks.reading import UNEXPLAINED, listed

if TYPE_CHECKING:
    from roadworthy.capture.source import Source
    from roadworthy.frameworks.adapter import Described as Described
    from roadworthy.frameworks.files.opening import Contents
    from roadworthy.frameworks.reading import Answers, Loaded, Reading

__all__ = [
    "BUILT_IN", "COMMON", "EXPLORATIONS", "FRAMEWORKS", "Adapter", "Framework", "adapter_for",
    "framework_of", "read_checkpoint",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One row: a framework as users know it, and what its folder can do.

    folder     below `roadworthy.frameworks`
    live       what describes its objects; None where only files of it are read
    files      whether `file.py` reads its checkpoints:
                 recognise(contents)      why it looks like a file of the framework, or None
                 read(contents, answers)  the reading; asks for all that the file does not say
    not_asked  why the framework itself is not asked about a trusted file; left out, `oracle.py` is:
                 predicting(contents, answers, source)  a source that takes and gives what `source`
                                                        does, by the framework's own predict
                 live(contents, answers)  what the framework loads; only where it can load alone
    """

    name: str
    folder: str
    live: Adapter | None = None
    files: bool = True
    not_asked: str = ""

    def recognise(self, contents: Contents) -> str | None:
        """Why the file looks like one of the framework; None where it does not."""
        return cast("str | None", self._module("file").recognise(contents)) if self.files else None

    def read(self, contents: Contents, answers: Answers) -> Reading:
        """What the file says, and what it leaves open."""
        return cast("Reading", self._module("file").read(contents, answers))

    def loaded(self, contents: Contents, answers: Answers) -> Loaded | None:
        """What the installed framework loads; None where it is not asked."""
        live = None if self.not_asked else getattr(self._module("oracle"), "live", None)
        return None if live is None else cast("Loaded", live(contents, answers))

    def predicting(self, contents: Contents, answers: Answers, source: Source) -> Source | str:
        """The framework's own predict as a source, or why it is not asked."""
        if self.not_asked:
            return self.not_asked
        return cast("Source | str", self._module("oracle").predicting(contents, answers, source))

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"roadworthy.frameworks.{self.folder}.{name}")


# Of files the more particular ones first: a bare state_dict is what is left when nobody knows it.
FRAMEWORKS = (
    Framework(
        name="TorchRL",
        folder="torchrl",
        files=False,
        live=Adapter(
            name="torchrl",
            classes=("tensordict.TensorDictModuleBase",),
            env_classes=("torchrl.EnvBase",),
            describe="roadworthy.frameworks.torchrl.live:describe",
            extra="torchrl",
        ),
    ),
    Framework(
        name="Stable-Baselines3",
        folder="sb3",
        live=Adapter(
            name="sb3",
            classes=("stable_baselines3.BaseAlgorithm",),
            describe="roadworthy.frameworks.sb3.live:describe",
            noun="a Stable-Baselines3 model",
        ),
    ),
    Framework(
        name="rsl_rl",
        folder="rsl_rl",
        live=Adapter(
            name="rsl_rl",
            classes=("rsl_rl.MLPModel", "rsl_rl.OnPolicyRunner"),
            describe="roadworthy.frameworks.rsl_rl.live:describe",
        ),
    ),
    Framework(
        name="rl_games",
        folder="rl_games",
        live=Adapter(
            name="rl_games",
            classes=("rl_games.BasePlayer",),
            describe="roadworthy.frameworks.rl_games.live:describe",
        ),
    ),
    Framework(
        name="Sample-Factory",
        folder="sample_factory",
        not_asked="its files do not name the environment's spaces, from which it makes its "
        "networks",
    ),
    Framework(
        name="Tianshou",
        folder="tianshou",
        not_asked="its files are weights alone, of which Tianshou makes no policy",
    ),
    Framework(
        name="skrl",
        folder="skrl",
        live=Adapter(
            name="skrl",
            classes=("skrl.Model", "skrl.Agent"),
            describe="roadworthy.frameworks.skrl.live:describe",
        ),
    ),
    Framework(
        name="CleanRL",
        folder="cleanrl",
        not_asked="its networks are written in the script that trained them, which is not in the "
        "file",
    ),
    Framework(
        name="a bare state_dict",
        folder="bare",
        not_asked="no framework is known to have written it",
    ),
    Framework(
        name="mjlab",
        folder="mjlab",
        files=False,
        live=Adapter(
            name="mjlab",
            classes=(
                "mjlab.ManagerBasedRlEnv",
                "mjlab.RslRlVecEnvWrapper",
                "mjlab.MjlabOnPolicyRunner",
            ),
            describe="roadworthy.frameworks.mjlab.live:describe",
            extra="mjlab",
            noun="an mjlab environment",
        ),
    ),
    Framework(
        name="IsaacLab",
        folder="isaaclab",
        files=False,
        live=Adapter(
            name="isaaclab",
            classes=("isaaclab.ManagerBasedRLEnv", "isaaclab_rl.RslRlVecEnvWrapper"),
            describe="roadworthy.frameworks.isaaclab.live:describe",
            noun="an IsaacLab environment",
        ),
    ),
)
BUILT_IN = (
    *(row.live for row in FRAMEWORKS if row.live is not None),
    Adapter(
        name="environment",
        classes=("roadworthy.ExportableEnvironment",),
        describe="roadworthy.environment.source:describe",
        noun="an environment",
    ),
    Adapter(
        name="checkpoint",
        recognises=looks_like_a_checkpoint,
        describe="roadworthy.frameworks.checkpoint:describe",
        noun="a checkpoint",
    ),
)


def adapter_for(thing: object, said: Container[str] = ()) -> Adapter | None:
    """The adapter that accepts `thing`, the one for its nearest class; None where there is none.

    `said` are the keywords beside it: who says which method acts describes the module by hand.
    """
    if "method" in said and not isinstance(thing, Path):
        return None
    rows = (*plug_ins(), *BUILT_IN)
    if isinstance(thing, Path):
        return next((row for row in rows if row.recognises and row.recognises(thing)), None)
    for kind in type(thing).__mro__:
        for row in rows:
            if row.accepts(kind):
                return row
    return None


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
    known = ", ".join(row.name for row in FRAMEWORKS if row.files)
    raise UsageError(
        f"no framework writes such a file: it holds {outline(contents)}",
        where=contents.where,
        code=UNEXPLAINED,
        hint=f"known: {known}; otherwise load it in Python and pass the module: "
        "rw.export(module, folder, example=…)",
    )


def read_checkpoint(contents: Contents, answers: Answers) -> Reading:
    """What the file is, as far as it and the answers say."""
    row = framework_of(contents)
    reading = row.read(contents, answers)
    answers.refuse_unasked()
    return replace(
        reading,
        framework=reading.framework or row.name,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
    )


def outline(contents: Contents) -> str:
    """What is in a file that nobody knows, in one line."""
    if contents.kind == "zip":
        return f"the files {listed(list(contents.members))}"
    if isinstance(contents.tree, Mapping):
        return f"the keys {listed([str(key) for key in contents.tree])}"
    return f"a {type(contents.tree).__name__}"
