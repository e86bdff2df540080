"""The wire format of protobuf and the messages of onnx.proto: what an ONNX file is read with.

A robot has no onnx, and must not need one. `onnx_file` tells what a file says of itself,
`onnx_graph` is what it computes; both are read through `Message`, and `MESSAGES` is the one table
of field numbers.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from roadworthy.errors import BundleError

# A number as it stands (varint, or the bits of a fixed one), or text or a message.
Field = int | memoryview

# Message → field → its number, and what message is in it: as onnx.proto names them. Every way from
# a model to a tensor is here.
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "model": {
        "producer_name": (2, ""), "graph": (7, "graph"), "opset_import": (8, "opset"),
        "metadata_props": (14, "entry"), "training_info": (20, "training"),
        "functions": (25, "function"),
    },
    "opset": {"domain": (1, ""), "version": (2, "")},
    "entry": {"key": (1, ""), "value": (2, "")},
    "training": {"initialization": (1, "graph"), "algorithm": (2, "graph")},
    "function": {"node": (7, "node"), "attribute_proto": (11, "attribute")},
    "graph": {
        "node": (1, "node"), "name": (2, ""), "initializer": (5, "tensor"), "input": (11, "value"),
        "output": (12, "value"), "sparse_initializer": (15, "sparse"),
    },
    "node": {
        "input": (1, ""), "output": (2, ""), "name": (3, ""), "op_type": (4, ""),
        "attribute": (5, "attribute"), "domain": (7, ""),
    },
    "attribute": {
        "name": (1, ""), "f": (2, ""), "i": (3, ""), "s": (4, ""), "t": (5, "tensor"),
        "g": (6, "graph"), "floats": (7, ""), "ints": (8, ""), "strings": (9, ""),
        "tensors": (10, "tensor"), "graphs": (11, "graph"), "sparse_tensor": (22, "sparse"),
        "sparse_tensors": (23, "sparse"),
    },
    "sparse": {"values": (1, "tensor"), "indices": (2, "tensor")},
    "tensor": {
        "dims": (1, ""), "data_type": (2, ""), "float_data": (4, ""), "int32_data": (5, ""),
        "int64_data": (7, ""), "name": (8, ""), "raw_data": (9, ""), "double_data": (10, ""),
        "uint64_data": (11, ""), "external_data": (13, ""), "data_location": (14, ""),
    },
    "value": {"name": (1, ""), "type": (2, "type")},
    "type": {"tensor_type": (1, "tensor_type")},
    "tensor_type": {"elem_type": (1, ""), "shape": (2, "shape")},
    "shape": {"dim": (1, "dim")},
    "dim": {"dim_value": (1, ""), "dim_param": (2, "")},
}  # fmt: skip


class NotAModel(BundleError):
    """The bytes are no ONNX file, or one in a form that no exporter writes; `why` says it."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"this is no ONNX file, or a damaged one: {why}",
            where="the model",
            hint="copy the file again from its source, or export it again",
        )
        self.why = why


class Message:
    """A message of an ONNX file. Of a field that is there once the last counts, as protobuf says.

    What stands in a field of another wire type than onnx.proto gives it is passed over, as
    protobuf does.
    """

    __slots__ = ("_fields", "_numbers", "content", "kind")

    def __init__(self, content: bytes | memoryview, kind: str = "model") -> None:
        self.content, self.kind = memoryview(content), kind
        self._numbers = MESSAGES[kind]
        self._fields: defaultdict[int, list[Field]] = defaultdict(list)
        for number, value in fields(self.content):
            self._fields[number].append(value)

    def all(self, field: str) -> list[Field]:
        """Everything in a field, in the order of the file."""
        return self._fields.get(self._numbers[field][0], [])

    def inside(self, field: str) -> list[Message]:
        """The messages in a field."""
        kind = self._numbers[field][1]
        return [Message(value, kind) for value in self.parts(field)]

    def one(self, field: str) -> Message | None:
        """The message in a field that has one at most."""
        contents = self.parts(field)
        return Message(contents[-1], self._numbers[field][1]) if contents else None

    def parts(self, field: str) -> list[memoryview]:
        """The bytes of the texts or messages in a field."""
        return [value for value in self.all(field) if not isinstance(value, int)]

    def texts(self, field: str) -> list[str]:
        try:
            return [str(value, "utf-8") for value in self.parts(field)]
        except UnicodeDecodeError as error:
            raise NotAModel("a name in it is no text") from error

    def text(self, field: str) -> str:
        return (self.texts(field) or [""])[-1]

    def integers(self, field: str) -> list[int]:
        """Numbers with a sign, packed or not."""
        return [number for value in self.all(field) for number in _integers(value)]

    def number(self, field: str) -> int | None:
        """A number that is there once, or None."""
        contents = self.integers(field)
        return contents[-1] if contents else None

    def walk(self) -> Iterator[Message]:
        """This message and all within it, wherever a tensor may be. Files may nest deeply."""
        waiting = [self]
        while waiting:
            message = waiting.pop()
            yield message
            for field, (_, kind) in message._numbers.items():
                if kind in _MAY_HOLD_TENSORS:
                    waiting += message.inside(field)


_MAY_HOLD_TENSORS = ("training", "function", "graph", "node", "attribute", "sparse", "tensor")


def fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """Number and content of each field; numbers of fixed size as their bits."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == 2:  # text, or a message
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:  # groups, which onnx.proto does not have and other readers would skip
            raise NotAModel("it holds a kind of field that ONNX does not have")
        if at + size > end:
            raise NotAModel("it ends in the middle of a field")
        content = message[at : at + size]
        yield tag >> 3, content if kind == 2 else int.from_bytes(content, "little")
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & (2**64 - 1), at
    raise NotAModel("it ends in the middle of a number")


def real(bits: int) -> float:
    """A fixed field of four bytes as the float that it holds."""
    return float(struct.unpack("<f", struct.pack("<I", bits & (2**32 - 1)))[0])


def _integers(field: Field) -> Iterator[int]:
    if isinstance(field, int):
        yield _signed(field)
        return
    at = 0
    while at < len(field):
        value, at = _varint(field, at)
        yield _signed(value)


def _signed(value: int) -> int:
    """A varint as the 64-bit number with a sign that it stands for."""
    return value - (1 << 64) if value >> 63 else value
