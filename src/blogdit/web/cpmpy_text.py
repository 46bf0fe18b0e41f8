"""A CPMpy model as text, without running it as Python: only what a model needs is understood.

Known are assignments, loops, conditions, comprehensions, arithmetic, comparisons and the functions of `FUNCTIONS`.
There are no imports but that of CPMpy, no attributes but `METHODS`, and every operation counts towards a limit.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance

MOST_OPERATIONS = 50_000
MOST_CHOICES = 1_000_000  # values of all variables together
LARGEST = 1 << 62  # of a number
FUNCTIONS = (
    "intvar", "boolvar", "Model", "AllDifferent", "AllDifferentExcept0", "AllEqual", "Circuit", "Cumulative", "Element",
    "Table", "InDomain", "Xor", "Count", "GlobalCardinalityCount", "Increasing", "Decreasing", "IncreasingStrict",
    "DecreasingStrict", "LexLess", "LexLessEq", "Maximum", "Minimum", "Abs", "sum", "min", "max", "abs", "any", "all",
)  # fmt: skip
PLAIN = {"len": len, "zip": zip, "enumerate": enumerate, "list": list, "int": int, "sorted": sorted}
METHODS = ("implies", "minimize", "maximize", "add", "append", "flatten", "T", "shape")
BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
UNNAMED = re.compile(r"[IB]V\d+")  # how CPMpy calls them
UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_}


@dataclass(frozen=True)
class Translated:
    """An instance, whose values count from 0, and how to say an answer in the numbers of the model."""

    instance: Instance
    bases: tuple[int, ...]  # the number that value 0 of each variable means
    constant: float  # what the model's objective is above that of the instance


def translated(text: str, name: str) -> Translated:
    """The one model that the text makes."""
    try:
        import cpmpy
    except ModuleNotFoundError:
        raise InputError("a CPMpy model needs pip install 'blogdit[cpmpy]'") from None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"not Python: {getattr(error, 'msg', error)}", line=getattr(error, "lineno", None)) from None
    reader = _Reader(cpmpy)
    try:
        reader.run(tree.body)
        models = [value for value in reader.names.values() if isinstance(value, cpmpy.Model)]
        if len({id(model) for model in models}) != 1:
            raise InputError(f"expected one variable that holds a cpmpy.Model, got {len(models)}")
        return _translate(models[0], name)
    except InputError as error:
        raise InputError(error.message, line=reader.line) from None
    except Exception as error:  # whatever CPMpy says of a wrong model
        raise InputError(f"{type(error).__name__}: {error}"[:300], line=reader.line) from None


def _translate(model: Any, name: str) -> Translated:
    from blogdit.integrations.cpmpy import CPM_blogdit

    solver = CPM_blogdit(model)
    built = solver._build()
    size, builder = built.instance.size, solver.poster.builder
    bases = np.zeros(size, np.int64)
    bases[built.place] = built.base
    constant = sum(weight * int(built.base[variable]) for variable, weight in builder.weights.items())
    chosen = {solver.poster.index[variable.name] for variable in solver.user_vars}
    if solver.has_objective() and set(builder.weights) <= chosen:  # no helper: its terms alone are above that of 0
        solver._assign(built.numbers(np.zeros(size, np.int64)))
        constant = float(solver.objective_.value())
    return Translated(replace(built.instance, name=name), tuple(bases.tolist()), float(constant))


class _Reader:
    def __init__(self, cpmpy: Any):
        self.cpmpy, self.line, self.left, self.choices = cpmpy, 1, MOST_OPERATIONS, MOST_CHOICES
        self.known = {name: getattr(cpmpy, name) for name in FUNCTIONS if hasattr(cpmpy, name)}
        self.known |= {"intvar": self._intvar, "boolvar": self._boolvar, "range": self._range, **PLAIN}
        self.names: dict[str, Any] = {}
        self.modules: set[str] = set()
        self.called: set[str] = set()  # names that variables have got

    def _intvar(self, low: Any, high: Any, shape: Any = 1, name: Any = None) -> Any:
        self._take(shape, int(high) - int(low) + 1)
        return self.cpmpy.intvar(int(low), int(high), shape, name)

    def _boolvar(self, shape: Any = 1, name: Any = None) -> Any:
        self._take(shape, 2)
        return self.cpmpy.boolvar(shape, name)

    def _take(self, shape: Any, values: int) -> None:
        """Variables and values are bounded before they are made."""
        size = 1
        for length in shape if isinstance(shape, tuple | list) else (shape,):
            size *= int(length)
        if size < 1 or values < 1:
            raise InputError(f"{size} variables with {values} values; expected at least one of each")
        self.choices -= size * values
        if self.choices < 0:
            raise InputError(f"more than {MOST_CHOICES} values of all variables together")

    def _range(self, *bounds: int) -> range:
        found = range(*bounds)
        self.count(min(len(found[: MOST_OPERATIONS + 1]), MOST_OPERATIONS + 1))
        return found

    def run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.line = statement.lineno
            match statement:
                case ast.Import(names=names) if all(alias.name == "cpmpy" for alias in names):
                    self.modules |= {alias.asname or alias.name for alias in names}
                case ast.ImportFrom(module="cpmpy", names=names):
                    pass
                case ast.Expr(value=value):
                    self.value(value)
                case ast.Assign(targets=targets, value=value):
                    result = self.value(value)
                    for target in targets:
                        self.assign(target, result)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    self.names[name] = self.binary(op, self.lookup(name), self.value(value))
                case ast.For(target=target, iter=iterable, body=inner, orelse=[]):
                    for item in self.items(iterable):
                        self.assign(target, item)
                        self.run(inner)
                case ast.If(test=test, body=inner, orelse=other):
                    self.run(inner if self.truth(test) else other)
                case _:
                    raise self.unknown(statement)

    def unknown(self, node: ast.AST) -> InputError:
        return InputError(f"{ast.unparse(node)[:60]!r} is not understood here; expected what a CPMpy model needs")

    def count(self, amount: int = 1) -> None:
        self.left -= amount
        if self.left < 0:
            raise InputError(f"more than {MOST_OPERATIONS} operations")

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
                self.call(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, item in zip(parts, list(value), strict=True):
                    self.assign(part, item)
            case _:
                raise self.unknown(target)

    def call(self, name: str, value: Any) -> None:
        """Variables without a name of their own are called as the text calls them."""
        if isinstance(value, self.cpmpy.expressions.variables.NDVarArray):
            for place, one in enumerate(value.flat):
                self.call(f"{name}[{place}]", one)
        elif isinstance(value, self.cpmpy.expressions.variables._NumVarImpl) and UNNAMED.fullmatch(value.name):
            if name not in self.called:  # in a loop several come under one name
                value.name = name
            self.called.add(name)

    def lookup(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        if name in self.known:
            return self.known[name]
        raise InputError(f"unknown name {name!r}")

    def items(self, node: ast.expr) -> Iterator[Any]:
        for item in self.value(node):
            self.count()
            yield item

    def truth(self, node: ast.expr) -> bool:
        value = self.value(node)
        if not isinstance(value, bool | int):
            raise InputError("a condition must be known when the model is made")
        return bool(value)

    def binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if type(op) not in BINARY:
            raise InputError(f"{type(op).__name__} is not understood here")
        sizes = [len(one) if isinstance(one, list | tuple | str) else abs(one) for one in (left, right)
                 if isinstance(one, list | tuple | str | int)]  # fmt: skip
        if isinstance(op, ast.Mult) and len(sizes) == 2 and not isinstance(left, int) | isinstance(right, int):
            raise InputError("lists cannot be multiplied")
        if isinstance(op, ast.Mult) and len(sizes) == 2 and sizes[0] * sizes[1] > LARGEST:
            raise InputError("a number beyond 62 bits")
        if isinstance(left, list | tuple | str) or isinstance(right, list | tuple | str):
            self.count(sizes[0] * sizes[-1] if isinstance(op, ast.Mult) else sum(sizes))
        return BINARY[type(op)](left, right)

    def value(self, node: ast.expr) -> Any:
        self.count()
        match node:
            case ast.Constant(value=bool() | int() | str() as constant) if not (
                isinstance(constant, int) and abs(constant) > LARGEST
            ):
                return constant
            case ast.Name(id=name):
                return self.lookup(name)
            case ast.List(elts=parts):
                return [self.value(part) for part in parts]
            case ast.Tuple(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
                return UNARY[type(op)](self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARE:
                return COMPARE[type(op)](self.value(left), self.value(right))
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self.truth(part) for part in parts)
            case ast.BoolOp(op=ast.Or(), values=parts):
                return any(self.truth(part) for part in parts)
            case ast.Subscript(value=inner, slice=index):
                return self.value(inner)[self.index(index)]
            case ast.ListComp(elt=made, generators=loops) | ast.GeneratorExp(elt=made, generators=loops):
                return list(self.comprehension(made, loops))
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in self.modules and name in self.known:
                return self.known[name]
            case ast.Attribute(value=inner, attr=name) if name in METHODS:
                return getattr(self.value(inner), name)
            case ast.Call(func=function, args=arguments, keywords=named) if all(one.arg for one in named):
                if not isinstance(function, ast.Name | ast.Attribute):
                    raise self.unknown(function)
                given = [self.value(one) for one in arguments]
                return self.value(function)(*given, **{str(one.arg): self.value(one.value) for one in named})
        raise self.unknown(node)

    def index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))
        if isinstance(node, ast.Tuple):
            return tuple(self.index(part) for part in node.elts)
        return self.value(node)

    def comprehension(self, made: ast.expr, loops: list[ast.comprehension]) -> Iterator[Any]:
        loop, *inner = loops
        for item in self.items(loop.iter):
            self.assign(loop.target, item)
            if all(self.truth(condition) for condition in loop.ifs):
                if inner:
                    yield from self.comprehension(made, inner)
                else:
                    yield self.value(made)
