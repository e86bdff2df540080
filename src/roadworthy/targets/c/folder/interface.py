"""A policy in C as its user sees it: what its ports are called, and which sizes it is of."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roadworthy.errors import UsageError, did_you_mean
from roadworthy.spec.onnx_graph import read
from roadworthy.spec.port import BATCH
from roadworthy.spec.signature import Signature
from roadworthy.targets.c.folder.naming import is_declared
from roadworthy.targets.c.kernels.panels import Storage
from roadworthy.targets.c.lowering import Unsupported
from roadworthy.targets.c.source import Code, Place, code, unique

# Of C and C++, macros of their compilers and systems, and members that the structs have anyway.
_WORDS = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return",
    "co_yield", "compl", "complex", "concept", "const", "const_cast", "consteval", "constexpr",
    "constinit", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast",
    "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "imaginary", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
    "noreturn", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected",
    "public", "register", "reinterpret_cast", "requires", "restrict", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "tick", "true", "try", "typedef", "typeid", "typename", "typeof",
    "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "work", "xor", "xor_eq",
    "errno", "far", "i386", "interface", "linux", "mips", "near", "small", "sparc", "stderr",
    "stdin", "stdout", "unix", "math_errhandling", "st_atime", "st_ctime", "st_mtime",
    "sa_handler", "h_addr",
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interface:
    """A policy in C as its user sees it: names of ports and memory, beside the code behind them.

    sizes  what the dimensions are that the file leaves open
    """

    signature: Signature
    code: Code
    digest: str
    names: Mapping[str, str]
    weights: Storage
    sizes: Mapping[str, int]

    def place(self, name: str) -> Place:
        """The port of the graph with a name of the signature."""
        return (*self.code.inputs, *self.code.outputs)[list(self.names).index(name)]

    @property
    def identity(self) -> str:
        """Eight digits that only these structs of this policy have: others do not link."""
        if not self.sizes and self.weights == "float32":
            return self.digest[:8]
        text = f"{self.digest} {sorted(self.sizes.items())} {self.weights}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def init(self) -> str:
        """What `policy_init` is called where files are linked, before the rows."""
        return f"policy_init_{self.identity}"

    @property
    def fixed(self) -> int | None:
        return self.signature.fixed_rows


def interface(
    model: bytes,
    signature: Signature,
    *,
    sizes: Mapping[str, int] | None = None,
    weights: Storage = "float32",
) -> Interface:
    """The C of an ONNX file, or an error that names what C cannot be written for.

    `sizes` says what each symbolic dimension but the batch shall be.
    """
    if sizes is not None and not isinstance(sizes, Mapping):
        raise UsageError(
            f"expected a dict, got a {type(sizes).__name__}", where="sizes", hint="{'agents': 8}"
        )
    chosen = dict(sizes or {})
    open_sizes = [name for name in signature.symbols if name != BATCH]
    _refuse_unknown_sizes(chosen, open_sizes)
    missing = [name for name in open_sizes if name not in chosen]
    if missing:
        asked = ", ".join(map(repr, missing))
        words = " ".join(f"--size {shlex.quote(name)}={chosen.get(name, 8)}" for name in open_sizes)
        raise Unsupported(
            f"the size of {asked} is open, and C is written for fixed sizes",
            hint=f"say it: roadworthy c FOLDER -o OUT {words}, or inspect FOLDER --c {words}; an "
            "export leaves the target c out, and rw.load(folder, engine='c') compiles for each",
        )
    signature = signature.with_sizes(chosen)
    graph = read(model)
    listed = [each.name for each in (*graph.inputs, *graph.outputs)]
    taken: set[str] = set()
    names = {name: _identifier(name, taken) for name in listed}
    return Interface(
        signature=signature, code=code(graph, chosen, weights), names=names, weights=weights,
        digest=hashlib.sha256(model).hexdigest(), sizes=chosen,
    )  # fmt: skip


def _refuse_unknown_sizes(chosen: Mapping[str, object], open_sizes: Sequence[str]) -> None:
    for name, size in chosen.items():
        if name == BATCH:
            raise UsageError(
                "rows are not chosen when the C is written",
                where="sizes",
                hint="-DPOLICY_ROWS=4 compiles it for four robots",
            )
        if name not in open_sizes:
            raise UsageError(
                f"the policy leaves no size open that is called {name!r}",
                where="sizes",
                hint=did_you_mean(str(name), open_sizes),
            )
        if type(size) is not int or size < 1:
            raise UsageError(
                f"a size is a whole number from 1 on, got {name}={size!r}", where="sizes"
            )


def _identifier(name: str, taken: set[str]) -> str:
    base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "port"
    # Names in capitals are macros, of <math.h> or of somebody's board.
    is_macro = base == base.upper() and (len(base) > 1 or base == "I")
    is_taken = base in _WORDS or is_declared(base) or base[0].isdigit() or is_macro
    base = f"{base}_" if is_taken else base
    return unique(f"p{base}" if base[0].isdigit() else base, taken)
