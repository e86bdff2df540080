"""The files beside a checkpoint that answer what it does not say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError
from roadworthy.frameworks.reading import DAMAGED, NEEDS_TRUST
from roadworthy.spec.limits import MEBI, size_text
from roadworthy.spec.yaml_file import BadYaml, plain_yaml

# Settings: the zoo's, IsaacLab's and mjlab's, Sample-Factory's.
SETTINGS = (
    "config.yml", "args.yml", "params/agent.yaml", "params/env.yaml", "config.json", "cfg.json",
)  # fmt: skip
AGENT = "params/agent.yaml"
ABOVE = ("params/agent.yaml", "params/env.yaml", "config.json", "cfg.json")
STATISTICS = ("vecnormalize.pkl", "vec_normalize.pkl")
MOST_BYTES = 16 * MEBI


@dataclass(frozen=True)
class Neighbours:
    """What lies beside the file; nothing is read before it is asked for."""

    path: Path
    _read: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def found(self) -> dict[str, Path]:
        """Name → path of each neighbour that is there; the nearest folder wins."""
        here = self.path.resolve().parent
        # The zoo: <env>_1/{best_model.zip, <env>/{config.yml, vecnormalize.pkl}}
        own = (here, here / here.name.rpartition("_")[0], here / self.path.stem)
        # IsaacLab: <run>/{model_100.pt, params/agent.yaml}; skrl, rl_games, Sample-Factory: one
        # folder deeper. The folder above may belong to somebody else: only these are looked for.
        places: list[tuple[Path, tuple[str, ...]]] = [
            (folder, (*SETTINGS, *STATISTICS)) for folder in own
        ]
        places.append((here.parent, ABOVE))
        found: dict[str, Path] = {}
        for folder, names in places:
            for name in names:
                if name not in found and (folder / name).is_file():
                    found[name] = folder / name
        return found

    def settings(self, name: str) -> Mapping[str, Any]:
        """The content of a settings file; empty where there is none."""
        if name not in self.found:
            return {}
        if name not in self._read:
            self._read[name] = _settings(self.found[name])
        return dict(self._read[name])

    def lookup(self, name: str, *keys: str) -> tuple[object, str]:
        """A value and who says it, as `Answers.ask` takes it: `lookup("config.yml", "gamma")`."""
        value: Any = self.settings(name)
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value, f"{name} ({'.'.join(keys)})"

    @property
    def statistics(self) -> Path | None:
        """A vecnormalize.pkl, where there is one."""
        return next((self.found[name] for name in STATISTICS if name in self.found), None)


def _settings(path: Path) -> Mapping[str, Any]:
    data = path.read_bytes()
    if len(data) > MOST_BYTES:
        raise UsageError(f"{size_text(len(data))} are no settings", where=str(path), code=DAMAGED)
    read = json.loads if path.suffix == ".json" else plain_yaml
    try:
        found = read(data.decode())
    except (ValueError, RecursionError) as error:
        runs_code = isinstance(error, BadYaml) and error.runs_code
        raise UsageError(
            str(error) if runs_code else f"cannot be read: {error}",
            where=str(path),
            code=NEEDS_TRUST if runs_code else DAMAGED,
            hint="write the value out, or move the file away: then its questions are asked",
        ) from error
    if isinstance(found, list):  # the zoo writes an OrderedDict: a list of pairs
        pairs = [each for each in found if isinstance(each, (list, tuple)) and len(each) == 2]
        found = {pair[0]: pair[1] for pair in pairs}
    return found if isinstance(found, Mapping) else {}
