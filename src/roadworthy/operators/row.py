"""A row of the table of operators, and what its columns mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How the results of an operator may be off, and so how they are shaken (`originals.interpreting`).
#   "sum"          sums of products, which every library adds in an order of its own
#   "count"        sums, in which ones may be counted: what is whole is exact
#   "by one"       functions that libraries compute by way of one: eˣ − 1, 1 / (1 + e⁻ˣ), 1 + erf x;
#                  a unit in the last place of one is much of a small result (RW340 names it)
#   "around zero"  such functions whose small results may come out on the other side of zero
Rounding = Literal["", "sum", "count", "by one", "around zero"]
# Where the elements of a result come from.
#   "same"   they are the first argument's, in the same order, in another type or shape at most
#   "moved"  they are elements of the arguments, elsewhere
Values = Literal["", "same", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """A range of inputs in which an ONNX file is not PyTorch, and what is seen there."""

    where: str
    what: str
    # A file that is written with whole sigmoids has nothing of it.
    of_sigmoids: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """What we know of an operator.

    name        in `torch.ops.aten`, without the mark of what is done in place
    values      where the elements of the result come from
    casts       what was handed on has another type, or is on another device
    overwrites  of the first argument only the shape matters
    reduces     makes one element of a whole tensor, called without arguments

    smooth      a little more of what enters gives a little more of what comes out; a quotient is,
                where it is by what never changes, and `originals.exact` looks
    turns       the overloads for which a little more makes another result altogether
    chooses     the overloads whose input, along the last axis, is what a choice is made of
    rounds      how the result may be off

    compares    its constants divide its input: compared with, clipped to, wrapped at
    thresholds  such constants, where they are part of its definition
    counts      a counter passes through it, whatever else is done
    in_code     code that names it is taken to compare. Of those that compare only these: clips and
                maxima bound actions everywhere, and an environment is watched for as many steps as
                such code has numbers

    onnx        the module of `targets.onnx.translations` that writes it as PyTorch computes it
    doubles     `targets.onnx.translations.doubles` does, in a graph that holds float64
    renamed     `targets.onnx.settled` writes it as another one under a simpler name
    differs     how its ONNX form is not PyTorch's, where nothing can be done
    sigmoids    a file may be written with sigmoids for it
    instead     the line to write, where ONNX has no form for it
    algebra     is linear algebra under a name of its own: computed once, if only weights go in
    """

    name: str
    values: Values = ""
    casts: bool = False
    overwrites: bool = False
    reduces: bool = False
    smooth: bool = False
    turns: tuple[str, ...] = ()
    chooses: tuple[str, ...] = ()
    rounds: Rounding = ""
    compares: bool = False
    thresholds: tuple[float, ...] = ()
    counts: bool = False
    in_code: bool = False
    onnx: str = ""
    doubles: bool = False
    renamed: bool = False
    differs: KnownDifference | None = None
    sigmoids: bool = False
    instead: str = ""
    algebra: bool = False
