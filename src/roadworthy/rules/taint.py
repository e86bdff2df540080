"""Which expressions hold values that come from the inputs, read off the code."""

from __future__ import annotations

import ast

from roadworthy.operators.asking import gives_no_values

# What these give is known without a value: a graph can hold it as it is.
_KNOWN_ATTRIBUTES = {
    "shape", "ndim", "dtype", "device", "layout", "requires_grad", "batch_size",
}  # fmt: skip
_KNOWN_CALLS = {
    "len", "isinstance", "type", "hasattr", "callable", "issubclass", "id", "keys", "startswith",
    "endswith",
}  # fmt: skip
_SCALARS = {"int", "bool", "float", "str"}


class Taint:
    """The names in one method that hold values of the inputs."""

    def __init__(self, names: set[str]) -> None:
        self.names = set(names)

    def reaches(self, node: ast.AST | None) -> bool:
        """Whether the value of an expression comes from an input's values."""
        match node:
            case None:
                return False
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                return f"self.{attribute}" in self.names
            case ast.Attribute(value=value, attr=attribute):
                return not _known(attribute, _KNOWN_ATTRIBUTES) and self.reaches(value)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                name = called(function)
                if _known(name, _KNOWN_CALLS) or gives_no_values(name):
                    return False
                given = [*arguments, *(each.value for each in keywords)]
                inside = isinstance(function, ast.Attribute) and self.reaches(function.value)
                return inside or any(map(self.reaches, given))
            case ast.Compare(left=left, ops=operators, comparators=others):
                if any(isinstance(each, (ast.Is, ast.IsNot)) for each in operators):
                    return False
                if any(isinstance(each, (ast.In, ast.NotIn)) for each in operators):
                    return self.reaches(left)
                return any(map(self.reaches, [left, *others]))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._inside(node.generators).reaches(node.elt)
            case ast.DictComp():
                return self._inside(node.generators).reaches(node.value)
            case _:
                return any(map(self.reaches, ast.iter_child_nodes(node)))

    def _inside(self, generators: list[ast.comprehension]) -> Taint:
        inner = Taint(self.names)
        for each in generators:
            inner.iterate(each.target, each.iter)
        return inner

    def assign(self, target: ast.expr, tainted: bool) -> None:
        """Note what a name holds from here on."""
        match target:
            case ast.Name(id=name):
                self._mark(name, tainted)
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                self._mark(f"self.{attribute}", tainted)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for each in parts:
                    self.assign(each, tainted)
            case ast.Starred(value=value):
                self.assign(value, tainted)
            case ast.Subscript(value=value) if tainted:
                self.assign(value, True)

    def iterate(self, target: ast.expr, over: ast.expr) -> None:
        """Note what the names of a loop hold; keys of a mapping are no values."""
        tainted = self.reaches(over)
        method = called(over.func) if isinstance(over, ast.Call) else ""
        if method in ("items", "enumerate") and isinstance(target, ast.Tuple):
            self.assign(target.elts[0], False)
            for each in target.elts[1:]:
                self.assign(each, tainted)
            return
        self.assign(target, tainted and method != "keys")

    def _mark(self, name: str, tainted: bool) -> None:
        if tainted:
            self.names.add(name)
        else:
            self.names.discard(name)


def called(function: ast.expr) -> str:
    """The last name of what is called: `item` for `obs.max().item`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def dotted(node: ast.expr) -> str:
    """`torch.ops.mylab.gain` for such an attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        below = dotted(node.value)
        return f"{below}.{node.attr}" if below else ""
    return ""


def inputs_of(function: ast.FunctionDef) -> list[str]:
    """The parameters that can hold tensors: without a default that is a plain value."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = list(zip(positional, [*defaults, *arguments.defaults], strict=True))[1:]
    pairs += list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    found = [each.arg for each, default in pairs if not _plain(each.annotation, default)]
    return found + ([arguments.vararg.arg] if arguments.vararg else [])


def _plain(annotation: ast.expr | None, default: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Name) and annotation.id in _SCALARS:
        return True
    return isinstance(default, ast.Constant) and default.value is not None


def _known(name: str, known: set[str]) -> bool:
    return name in known or name.startswith("is_")
