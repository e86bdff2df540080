"""Whether a C function answers by its arguments alone, or by something that can move.

Known are the functions that answer by their arguments; whatever else is written in C is a question
to the world, be it a clock, a counter of the interpreter's or a database.
"""

from __future__ import annotations

import collections
import contextvars
import datetime
import io
import random
import re
import types
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# Modules in C whose functions answer by their arguments, or whose objects are looked into.
_BY_ARGUMENTS = {
    "_abc", "_bisect", "_collections", "_contextvars", "_csv", "_functools", "_heapq", "_json",
    "_operator", "_statistics", "_string", "_struct", "_warnings", "_weakref", "array", "binascii",
    "builtins", "cmath", "itertools", "math", "zlib", "numpy", "torch", "tensordict",
}  # fmt: skip
_OF_OBJECTS = _BY_ARGUMENTS - {"_functools"}
# … but for these, which answer by what else the process has done.
_BY_THE_PROCESS = {
    "builtins.id", "builtins.input",
    "torch.get_num_interop_threads", "torch.get_num_threads", "torch.initial_seed",
    "torch.is_inference_mode_enabled",
}  # fmt: skip
# Objects in C whose methods give what the object holds, where moving is seen.
_LOOKED_INTO = (
    bool, int, float, complex, str, bytes, bytearray, memoryview, tuple, list, dict, set, frozenset,
    range, slice, collections.deque, collections.OrderedDict, collections.defaultdict, type,
    types.GeneratorType, types.MappingProxyType, types.CodeType, BaseException, re.Pattern,
    re.Match, contextvars.ContextVar, contextvars.Context, weakref.ReferenceType, random.Random,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, io.StringIO, io.BytesIO,
    np.ndarray, np.generic, np.dtype, np.random.Generator, np.random.RandomState, np.ufunc,
    torch.Tensor, torch.Generator, torch.Size, torch.dtype, torch.device,
    torch.jit.ScriptFunction, torch.jit.ScriptModule,
)  # fmt: skip
# Methods and functions that are called for what they do, and give nothing to decide by.
_DOING = {
    "__enter__", "__exit__", "__init__", "__init_subclass__", "__new__", "__setattr__", "acquire",
    "close", "collect", "disable", "enable", "flush", "intern", "release", "sleep", "write",
    "writelines",
}  # fmt: skip
# Modules that people know by another name.
_KNOWN_AS = {"posix": "os", "nt": "os", "_thread": "threading"}
_MOMENTS = ("now", "utcnow", "today")
# Clocks that only translate a moment that is given.
_TRANSLATING = ("mktime", "strptime")


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a call asks the world: what it is called, and the line that asks."""

    name: str
    line: str


def question_in(function: Any) -> str:
    """What a C function is called that answers by something else than its arguments; or nothing."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        asks = issubclass(owner, datetime.date) and name in _MOMENTS
        return f"{owner.__module__}.{name}" if asks else ""
    if owner is random._inst:
        return "random"
    module = getattr(function, "__module__", None)
    if isinstance(module, str):
        return "" if name in _DOING else _of_module(module, name)
    if isinstance(owner, _LOOKED_INTO) or name in _DOING:
        return ""
    kind = type(owner)
    if kind.__module__.partition(".")[0] in _OF_OBJECTS:
        return ""
    return f"{kind.__module__.lstrip('_')}.{kind.__qualname__}.{name}"


def _of_module(module: str, name: str) -> str:
    if module == "time" and name in _TRANSLATING:
        return ""
    top = module.partition(".")[0]
    known_as = "torch" if top == "torch" else _KNOWN_AS.get(module, module.lstrip("_"))
    said = f"{known_as}.{name}"
    if said == "io.open":
        said = "open"
    return said if top not in _BY_ARGUMENTS or said in _BY_THE_PROCESS else ""
