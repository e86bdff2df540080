"""Parts of a run that nobody watches: the inside of a simulator, where no line is the author's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def unwatched(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, during which Roadworthy looks at no line and no function.

    Python tells a watcher of every call, and one tick of a simulator is ten thousands of them.
    Watchers of others, such as a debugger, are left where they are.
    """

    @functools.wraps(call)
    def quietly(*args: Any, **kwargs: Any) -> Any:
        tracer, profiler = _ours(sys.gettrace()), _ours(sys.getprofile())
        if tracer:
            sys.settrace(None)
        if profiler:
            sys.setprofile(None)
        try:
            return call(*args, **kwargs)
        finally:
            if profiler:
                sys.setprofile(profiler)
            if tracer:
                sys.settrace(tracer)

    return quietly


def _ours(watcher: Any) -> Any:
    module = getattr(watcher, "__module__", None) or ""
    return watcher if module.partition(".")[0] == "roadworthy" else None
