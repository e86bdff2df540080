"""Plain data from a pickle: nothing in it is imported, and nothing of it is run.

A pickle names functions and calls them. Here every name is looked up in a table of our own: NumPy's
arrays and numbers become NumPy arrays and numbers, the classes that checkpoints hold become
`Record`s with their fields, and any other name is refused.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.frameworks.reading import DAMAGED, NEEDS_TRUST
from roadworthy.spec.limits import MEBI, size_text

MOST_BYTES = 256 * MEBI


class Record:
    """An object that was not made: the name of its class, what it was called with, its fields."""

    kind = ""

    def __new__(cls, *args: object, **kwargs: object) -> Record:
        made = super().__new__(cls)
        made.__dict__.update(arguments=args, fields={})
        return made

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        """Takes the fields as data: a dict, or a dict and the slots behind it."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, Mapping):
                self.__dict__["fields"].update(part)

    def __setitem__(self, key: object, value: object) -> None:
        self.__dict__["fields"][key] = value

    def get(self, name: str, default: object = None) -> Any:
        """A field, by its name."""
        return self.__dict__["fields"].get(name, default)

    def __repr__(self) -> str:
        return f"<{self.kind}>"


class Name(str):
    """A class or function that is only named, such as an activation; it cannot be called."""

    __slots__ = ()

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise _CallsCode(str(self))


class _CallsCode(Exception):
    """A pickle wants to call something; its name is the message."""


# Every name is only named: for notes of which a few are of interest.
ANY = ("*",)
# Classes whose fields are data. A name that ends with a dot stands for all below it.
SPACES = ("gymnasium.spaces.", "gym.spaces.", "gym.utils.seeding.", "numpy.random.")
STATISTICS = (
    "stable_baselines3.common.vec_env.vec_normalize.VecNormalize",
    "stable_baselines3.common.running_mean_std.RunningMeanStd",
    *SPACES,
)


def read_pickle(
    data: bytes, *, where: str, records: tuple[str, ...] = SPACES, names: tuple[str, ...] = ()
) -> Any:
    """The plain data that the pickle describes, or an error that says what it wants to run.

    records  classes that become a `Record`; one that ends with a dot stands for all below it
    names    classes and functions that are only named, in the same way
    """
    if len(data) > MOST_BYTES:
        raise _broken(f"{size_text(len(data))} are more than a checkpoint's notes hold", where)
    try:
        return _Reader(io.BytesIO(data), where=where, records=records, names=names).load()
    except _CallsCode as error:
        raise UsageError(
            f"the pickle wants to call {error}, which is neither a number nor an array",
            where=where,
            code=NEEDS_TRUST,
            hint="nothing was run; if you know who made it, load it in Python and pass the object",
        ) from error
    except Exception as error:  # a damaged pickle raises whatever the damage looks like
        raise _broken(f"not a readable pickle ({type(error).__name__}: {error})", where) from error


def _broken(what: str, where: str) -> UsageError:
    return UsageError(what, where=where, code=DAMAGED, hint="copy the file again from its source")


class _Reader(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, *, where: str, records: tuple[str, ...], names: tuple[str, ...]
    ) -> None:
        super().__init__(file)
        self._where, self._records, self._names = where, records, names

    def find_class(self, module: str, name: str) -> Any:
        """Our own stand-in for the name; what has none is refused."""
        full = f"{module}.{name}"
        if full in _STAND_INS:
            return _STAND_INS[full]
        if _listed(full, self._records):
            return type(name.rpartition(".")[2], (Record,), {"kind": full})
        if _listed(full, self._names):
            return Name(full)
        raise _CallsCode(full)

    def persistent_load(self, pid: object) -> Any:
        raise pickle.UnpicklingError(f"a reference to something outside: {pid!r}")


def _listed(full: str, known: tuple[str, ...]) -> bool:
    if known == ANY:
        return True
    return any(full.startswith(each) if each.endswith(".") else full == each for each in known)


class _DType(Record):
    """A dtype of numbers or text: its name now, its byte order with the state."""

    kind = "numpy.dtype"

    def __setstate__(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else ""
        self.__dict__["order"] = order if order in ("<", ">") else "="

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype itself; of objects, which would be made while they are read, there is none."""
        text = (*self.__dict__["arguments"], None)[0]
        if not isinstance(text, str) or text.lstrip("<>|=")[:1] not in tuple("biufcSU?"):
            raise pickle.UnpicklingError(f"an array of dtype {text!r}")
        return np.dtype(text).newbyteorder(self.__dict__.get("order", "="))

    def __repr__(self) -> str:
        return self.dtype.name


class _Array(np.ndarray):
    """An array that NumPy's pickles make empty, and fill with its state."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _DType) or not isinstance(raw, (bytes, str)):
            raise pickle.UnpicklingError("an array that holds no numbers")
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        # NumPy's stub asks for its own bool, which NumPy itself refuses.
        super().__setstate__((1, tuple(shape), dtype.dtype, bool(fortran), data))  # type: ignore[arg-type]


def _empty(*_: object) -> _Array:
    return np.empty(0, np.int8).view(_Array)


def _from_buffer(
    data: object, dtype: object, shape: Any, order: str, *_: object
) -> np.ndarray[Any, Any]:
    if not isinstance(data, (bytes, bytearray)) or not isinstance(dtype, _DType):
        raise pickle.UnpicklingError("an array that holds no numbers")
    return np.frombuffer(bytes(data), dtype.dtype).reshape(
        shape, order="F" if order == "F" else "C"
    )


def _scalar(dtype: object, data: object) -> Any:
    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(dtype, _DType) or not isinstance(data, bytes):
        raise pickle.UnpicklingError("a number that is none")
    return np.frombuffer(data, dtype.dtype, count=1)[0]


def _encoded(text: object, encoding: object = "latin1") -> bytes:
    """What `_codecs.encode` gives: protocol 2 writes bytes as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


def _made(kind: Any, *_: object) -> Record:
    """What `copyreg._reconstructor` gives: an object without its fields."""
    if not (isinstance(kind, type) and issubclass(kind, Record)):
        raise pickle.UnpicklingError(f"an object of {kind!r}")
    return kind()


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    return dict(pairs)


_STAND_INS: dict[str, Callable[..., Any] | Name] = {
    "_codecs.encode": _encoded,
    "builtins.bytearray": bytearray,
    "builtins.object": Name("builtins.object"),
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "collections.OrderedDict": _ordered,
    "collections.deque": list,
    "copyreg._reconstructor": _made,
    "copy_reg._reconstructor": _made,
    "numpy.dtype": _DType,
    "numpy.ndarray": Name("numpy.ndarray"),
    **{
        f"numpy.{name}": Name(f"numpy.{name}")
        for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64",
                     "uint8", "uint16", "uint32", "uint64", "bool_", "bool")
    },
    **{
        f"numpy.{core}.{name}": function
        for core in ("core", "_core")
        for name, function in (
            ("multiarray._reconstruct", _empty),
            ("multiarray.scalar", _scalar),
            ("numeric._frombuffer", _from_buffer),
        )
    },
}  # fmt: skip
