"""Whole numbers without a case that C leaves open: zero divisors, overflow, casts of floats."""

from __future__ import annotations

import numpy as np

from roadworthy.targets.c.elementwise import C_TYPES

_NAMES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def functions() -> dict[str, str]:
    found = {}
    for name in _NAMES:
        kind = C_TYPES[name]
        found[f"rw_maxi_{name}"] = _two("maxi", name, kind, "a > b ? a : b")
        found[f"rw_mini_{name}"] = _two("mini", name, kind, "a < b ? a : b")
        if name == "bool":
            continue
        signed = not name.startswith("u")
        # The smallest number has no positive twin: dividing it by −1 wraps around to itself.
        negative = f"b == -1 ? ({kind})(0 - {_unsigned(name)}a) : " if signed else ""
        found[f"rw_divi_{name}"] = _two(
            "divi", name, kind, f"b == 0 ? 0 : {negative}({kind})(a / b)"
        )
        whole = "b == 0 || b == -1 ? 0" if signed else "b == 0 ? 0"
        found[f"rw_remi_{name}"] = _two("remi", name, kind, f"{whole} : ({kind})(a % b)")
        found[f"rw_modi_{name}"] = (
            f"static inline {kind} rw_modi_{name}({kind} a, {kind} b)\n{{\n"
            f"    const {kind} rest = rw_remi_{name}(a, b);\n"
            f"    return rest != 0 && (rest < 0) != (b < 0) ? ({kind})(rest + b) : rest;\n}}"
            if signed
            else _two("modi", name, kind, f"rw_remi_{name}(a, b)")
        )
        found[f"rw_to_{name}"] = _from_float(name, kind)
    found["rw_wrap"] = (
        "static inline int64_t rw_wrap(int64_t index, int64_t length)\n{\n"
        "    const int64_t from_start = index < 0 ? index + length : index;\n"
        "    return from_start < 0 ? 0 : from_start >= length ? length - 1 : from_start;\n}"
    )
    return found


def _unsigned(name: str) -> str:
    return "(uint64_t)" if name == "int64" else "(uint32_t)"


def _two(call: str, name: str, kind: str, body: str) -> str:
    return f"static inline {kind} rw_{call}_{name}({kind} a, {kind} b)\n{{\n    return {body};\n}}"


def _from_float(name: str, kind: str) -> str:
    """A cast that saturates; NaN becomes 0. C leaves both open."""
    limits = np.iinfo(name)
    low = "INT64_MIN" if name == "int64" else f"({kind}){limits.min}" if limits.min else "0"
    high = {"int64": "INT64_MAX", "uint64": "UINT64_MAX"}.get(name, f"({kind}){limits.max}u")
    top = f"{float(limits.max) + (0 if limits.bits == 64 else 1):.1f}"
    bottom = f"{float(limits.min) - (0 if limits.bits == 64 else 1):.1f}"
    under = f"x <= {bottom}" if limits.min else "x <= 0.0"
    return (
        f"static inline {kind} rw_to_{name}(double x)\n{{\n"
        f"    return x != x ? 0 : {under} ? {low} : x >= {top} ? {high} : ({kind})x;\n}}"
    )
