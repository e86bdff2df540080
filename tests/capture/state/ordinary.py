"""Policies that name what everybody's code names and nobody's call writes: all are certified."""

from __future__ import annotations

import abc
import collections.abc
import ctypes
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
import typing
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np
import torch
from numpy.random import RandomState, default_rng
from scipy.signal._upfirdn_apply import _output_len as cython_length  # type: ignore[import-untyped]
from scipy.spatial.transform import Rotation  # type: ignore[import-untyped]
from torch import Tensor, nn

from tests.capture.state.wrong import Base

ORDINARY: list[type[nn.Module]] = []


def ordinary(kind: type[nn.Module]) -> type[nn.Module]:
    ORDINARY.append(kind)
    return kind


class Gait(enum.Enum):
    TROT = 1
    WALK = 2
    PACE = TROT  # an alias

    @property
    def gain(self) -> float:
        return 2.0 if self is Gait.TROT else 0.5


class Joint(enum.IntEnum):
    HIP = 0
    KNEE = 1


class Limb(enum.Flag):
    LEFT = enum.auto()
    RIGHT = enum.auto()
    BOTH = LEFT | RIGHT


class Bit(enum.IntFlag):
    A = 1
    B = 2


class Mode(str, enum.Enum):
    STAND = "stand"
    RUN = "run"


class Ranges(enum.Enum):
    """Members with attributes of their own."""

    HIP = (-1.0, 1.0)
    KNEE = (0.0, 2.0)

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high


@ordinary
class NamesEnum(Base):
    def begin(self) -> None:
        self.kind = Gait.TROT

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 2 if self.kind is Gait.TROT else y


@ordinary
class EnumFromText(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * Gait["TROT"].gain + Gait(2).value + len(Gait)


@ordinary
class EnumInside(Base):
    class Kind(enum.Enum):
        ONE = enum.auto()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * self.Kind.ONE.value


@ordinary
class LoopsOverEnum(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        for each in Gait:
            y = y + each.gain
        return y


@ordinary
class NamesIntEnum(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + obs[:, Joint.KNEE, None] * Joint.KNEE


@ordinary
class NamesFlag(Base):
    def begin(self) -> None:
        self.limbs = Limb.BOTH

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        y = y + 1 if Limb.LEFT in self.limbs else y
        return y + int(Bit.A | Bit.B)


@ordinary
class NamesStrEnum(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        table = {Mode.STAND: 0.5, Mode.RUN: 2.0}
        return y * table[Mode("run")]


@ordinary
class MatchesEnum(Base):
    def begin(self) -> None:
        self.kind = Gait.WALK

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        match self.kind:
            case Gait.TROT:
                return y
            case Gait.WALK:
                return y * 3
            case _:
                return -y


@ordinary
class EnumOfRanges(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y.clamp(Ranges.HIP.low, Ranges.KNEE.high)


@ordinary
class EnumKeys(Base):
    def begin(self) -> None:
        self.nets = {Gait.TROT: nn.Linear(4, 4), Gait.WALK: nn.Linear(4, 4)}

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        out: Tensor = self.nets[Gait.WALK](y)
        return out


@ordinary
class CallsCython(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        out: Tensor = y * cython_length(3, 4, 1, 1)
        return out


@ordinary
class NamesDefaultRng(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if self.training:
            y = y + torch.as_tensor(np.random.default_rng(0).normal(size=4))
        return y


@ordinary
class NamesImportedRng(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if self.training:
            y = y + default_rng(0).normal() + RandomState(0).normal()
        return y


@ordinary
class NamesRandomState(Base):
    def begin(self) -> None:
        self.rng = np.random.RandomState(0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if isinstance(self.rng, (np.random.RandomState, np.random.Generator)) and self.training:
            y = y + self.rng.normal()
        return y


@ordinary
class IsinstanceOfGenerator(Base):
    def begin(self) -> None:
        self.rng = np.random.default_rng(3)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + 1 if isinstance(self.rng, np.random.Generator) else y


MOUNT = Rotation.from_euler("z", 30, degrees=True)


@ordinary
class RotationConstant(Base):
    def begin(self) -> None:
        self.mount = Rotation.from_euler("x", 20, degrees=True)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        matrix = torch.as_tensor(self.mount.as_matrix(), dtype=torch.float32)
        return torch.cat([y[:, :3] @ matrix, y[:, 3:]], -1)


@ordinary
class RotationGlobal(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        first, *_ = MOUNT.as_quat().tolist()
        return y + first if isinstance(MOUNT, Rotation) else y


class Header(ctypes.Structure):
    _fields_: ClassVar[Any] = [("gain", ctypes.c_float), ("limits", ctypes.c_double * 2)]


class Word(ctypes.Union):
    _fields_: ClassVar[Any] = [("whole", ctypes.c_uint32), ("parts", ctypes.c_uint8 * 4)]


HEADER = Header(0.5, (ctypes.c_double * 2)(-1.0, 1.0))
WORD = Word(0x01020304)


@ordinary
class CtypesStructure(Base):
    def begin(self) -> None:
        self.header = Header(2.0, (ctypes.c_double * 2)(-2.0, 2.0))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        low, high = self.header.limits
        out: Tensor = (y * HEADER.gain + WORD.parts[0] * self.header.gain).clamp(low, high)
        return out


@ordinary
class CtypesPointer(Base):
    def begin(self) -> None:
        self.pointer = ctypes.pointer(HEADER)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        out: Tensor = y * self.pointer.contents.gain
        return out


class Constant(type):
    """A class of constants: nobody writes them."""

    def __setattr__(cls, name: str, value: Any) -> None:
        raise TypeError("a constant")


class Limits(metaclass=Constant):
    GAIN: Final = 2.0
    TABLE: ClassVar[dict[str, float]] = {"hip": 1.0}


class ReadOnly:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> float:
        return 3.0

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is read-only")


class Robot:
    mass = ReadOnly()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")


ROBOT = Robot()


@ordinary
class ClassOfConstants(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * Limits.GAIN * Limits.TABLE["hip"]


@ordinary
class FrozenInstance(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * ROBOT.mass * Robot.mass


@dataclasses.dataclass(frozen=True)
class Frozen:
    gain: float = 2.0
    parts: dict[str, float] = dataclasses.field(default_factory=lambda: {"a": 1.0})


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    gain: float = 2.0
    inner: Frozen = Frozen()


class Pair(NamedTuple):
    low: float
    high: float = 1.0


class Options(TypedDict, total=False):
    gain: float


FROZEN, SLOTS, PAIR = Frozen(), FrozenSlots(), Pair(-1.0)


@ordinary
class FrozenDataclasses(Base):
    def begin(self) -> None:
        self.config = FrozenSlots()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        other = dataclasses.replace(FROZEN, gain=3.0)
        y = y * self.config.inner.parts["a"] + SLOTS.gain + other.gain
        return y.clamp(PAIR.low, Pair(0.0).high) if isinstance(PAIR, Pair) else y


class LockedModule(types.ModuleType):
    """A module that nobody writes to, as a few packages have."""

    gain = 2.0

    @property
    def offset(self) -> float:
        return 1.0

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} is read-only")


LOCKED = LockedModule("locked")
vars(LOCKED)["scale"] = 3.0


@ordinary
class ReadOnlyModule(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        out: Tensor = y * LOCKED.gain + LOCKED.offset * LOCKED.scale + math.pi
        return out


SCALE = functools.partial(torch.mul, other=2.0)
TABLE = types.MappingProxyType({"hip": 1.0, "knee": 2.0})
SPACE = types.SimpleNamespace(gain=0.5)
FIRST = operator.itemgetter("hip")
VALUE = operator.attrgetter("gain")


@ordinary
class PartialsAndProxies(Base):
    def begin(self) -> None:
        self.scale = functools.partial(SCALE)
        self.table = types.MappingProxyType({Gait.TROT: 2.0})

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        y = self.scale(y) * TABLE["knee"] + self.table[Gait.TROT]
        out: Tensor = SCALE(y) * SPACE.gain + FIRST(TABLE) + VALUE(SPACE)
        return out


T = TypeVar("T")
Layers = list[tuple[int, T]]


class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


class Scaled(Protocol):
    gain: float


@typing.runtime_checkable
class Answers(Protocol):
    def forward(self, obs: Tensor) -> Tensor: ...


class Head(nn.Module, abc.ABC):
    @abc.abstractmethod
    def gain(self) -> float: ...

    def forward(self, obs: Tensor) -> Tensor:
        return obs * self.gain()


class Double(Head):
    def gain(self) -> float:
        return 2.0


@collections.abc.Sequence.register
class Chain:
    pass


@ordinary
class AbstractBases(Base):
    def begin(self) -> None:
        self.head = Double()
        self.box = Box[float](3.0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if isinstance(self.head, Head) and isinstance(self, Answers):
            y = self.head(y) * typing.cast(Scaled, SPACE).gain
        if issubclass(Chain, collections.abc.Sequence) and isinstance(self.box, Box):
            y = y + self.box.value
        made = Box[int](2)
        options: Options = {"gain": 2.0}
        return y * made.value * options["gain"]


class Dtypes:
    """Classes of C code with attributes that cannot be written."""

    FLOAT = np.float32
    EXACT = np.dtype("f8")


@ordinary
class NamesOfLibraries(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        held: Any = y
        if isinstance(held, (Dtypes.FLOAT, torch.Size, np.ndarray, np.integer)):
            return y
        kinds = {torch.float32: 1.0, Dtypes.EXACT: 2.0}
        info = torch.finfo(y.dtype)
        last = np.finfo(np.float32).eps + np.iinfo(np.int8).max
        return (y * kinds[y.dtype]).clamp(max=info.max) + float(last) + float(np.float32(1.0))


@ordinary
class LazyAttributes(Base):
    @functools.cached_property
    def gain(self) -> float:
        return 2.0

    @property
    def doubled(self) -> float:
        return 2 * self.gain

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * self.gain + self.doubled


class Slotted:
    __slots__ = ("_gain",)
    _gain: float

    def __init__(self, gain: float) -> None:
        object.__setattr__(self, "_gain", gain)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("immutable")

    @property
    def gain(self) -> float:
        return float(self._gain)


SLOTTED = Slotted(1.5)


@ordinary
class ImmutableSlots(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * SLOTTED.gain


class FrozenDict(dict[str, float]):
    """A dictionary that nobody writes to."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("frozen")

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("frozen")

    clear = update = pop = popitem = setdefault = __delitem__ = _refuse


class FrozenList(list[float]):
    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("frozen")

    __setitem__ = clear = append = extend = pop = insert = _refuse


CONFIG, GAINS = FrozenDict(gain=2.0), FrozenList([1.0, 2.0])


@ordinary
class FrozenContainers(Base):
    def begin(self) -> None:
        self.config = FrozenDict(gain=3.0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * CONFIG["gain"] * self.config["gain"] + GAINS[1]


@ordinary
class ReadOnlyArrays(Base):
    def begin(self) -> None:
        self.gains = np.arange(4, dtype=np.float32)
        self.gains.flags.writeable = False

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * float(self.gains[2]) + float(np.frombuffer(b"\x00\x00\x80?", np.float32)[0])


@ordinary
class FreshIterators(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        for gain, sign in zip([1.0, 2.0], itertools.cycle([1, -1]), strict=False):
            y = y + gain * sign
        return y + sum(map(float, itertools.islice(itertools.count(), 3)))
