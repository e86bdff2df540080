"""Every place that is reached can be written to, whatever its holder thinks of it."""

from __future__ import annotations

import types

from roadworthy.inspection.reach import Reach, root


class Settings(types.ModuleType):
    """As torch's configurations: a name that is no setting cannot be set."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self.__name__}.{name} does not exist")


def test_a_module_that_refuses_to_be_told_is_put_back() -> None:
    settings = Settings("settings")
    vars(settings)["level"] = [1]
    reached = Reach(names=frozenset({"level"})).walk([root("settings", settings)])
    level = next(slot for slot in reached if slot.name == "settings.level")
    assert level.holder is not None
    level.holder.put([2])
    assert settings.level == [2]
