"""Who calls what: every top-level function and class of the product, and the places that name it.

    from graveler.x import f, g as h        f, h name functions of x
    from graveler import x                  x.f names one
    "f"                                     so does a text, where the module lists its own doors

A definition that is named by nobody but itself is dead.  An endpoint is called by the collection of
operations: a function with the decorator `operation` is not dead.  Methods are judged by their
names alone: one that no expression of the product has is dead.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.architecture.source import Module

Symbol = tuple[str, str]  # the module's dotted name, and what it defines


class Definition(NamedTuple):
    """A function, a class or a method of the product."""

    path: str
    module: str
    name: str  # of a method: `Class.method`
    line: int
    is_operation: bool = False

    @property
    def subject(self) -> str:
        return f"{self.module}:{self.name}"


def dotted(module: Module) -> str:
    """The name by which a module is imported."""
    return module.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def definitions(module: Module) -> Iterator[Definition]:
    """Everything that a module defines at its top, and the methods of its classes."""
    name = dotted(module)
    for node in module.tree.body:
        if isinstance(node, _DEFINED):
            yield Definition(module.path, name, node.name, node.lineno, _is_operation(node))
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, _FUNCTIONS) and not child.name.startswith("__"):
                    yield Definition(module.path, name, f"{node.name}.{child.name}", child.lineno)


class Uses(NamedTuple):
    """What is named somewhere: symbols of modules, and bare attributes."""

    symbols: set[Symbol]
    attributes: set[str]


def uses(found: Iterable[Module]) -> Uses:
    """What these modules name."""
    there = list(found)
    known = {
        dotted(module): {node.name for node in module.tree.body if isinstance(node, _DEFINED)}
        for module in there
    }
    doors = {dotted(module): _imported(module, known) for module in there}
    symbols: set[Symbol] = set()
    attributes: set[str] = set()
    for module in there:
        own = dotted(module)
        names = doors[own]
        for node, inside in _named(module.tree):
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
                if isinstance(node.value, ast.Name) and node.value.id in names:
                    symbols.add((".".join(filter(None, names[node.value.id])), node.attr))
                continue
            name = node.id if isinstance(node, ast.Name) else str(node.value)
            if not isinstance(node, ast.Name):
                attributes.add(name)
            if name in known[own] and name != inside:
                symbols.add((own, name))
            elif name in names:
                symbols.add(names[name])
    return Uses(_followed(symbols, doors), attributes)


def dead(product: Iterable[Module], callers: Iterable[Module]) -> list[Definition]:
    """Definitions of `product` that nothing in `callers` names."""
    there = uses(callers)
    return [
        each
        for module in product
        for each in definitions(module)
        if not each.is_operation
        and not (
            each.name.split(".")[1] in there.attributes
            if "." in each.name
            else each.name.startswith("__") or (each.module, each.name) in there.symbols
        )
    ]


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINED = (*_FUNCTIONS, ast.ClassDef)


def _is_operation(node: ast.AST) -> bool:
    """Whether a decorator puts the function into a table: of operations, or of commands."""
    return any(
        isinstance(each, ast.Call)
        and getattr(each.func, "id", "") in ("operation", "client", "operator")
        for each in getattr(node, "decorator_list", ())
    )


def _imported(module: Module, known: dict[str, set[str]]) -> dict[str, Symbol]:
    """Names that a module imports: to what they lead; a module has no symbol."""
    found: dict[str, Symbol] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                leads = (whole, "") if whole in known else (node.module, each.name)
                found[each.asname or each.name] = leads
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.asname:
                    found[each.asname] = (each.name, "")
    return found


def _named(tree: ast.Module) -> Iterator[tuple[ast.Name | ast.Attribute | ast.Constant, str]]:
    """Whatever names something, and the definition at the top that it stands in."""
    for top in tree.body:
        inside = top.name if isinstance(top, _DEFINED) else ""
        for node in ast.walk(top):
            if isinstance(node, ast.Name | ast.Attribute) or (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.isidentifier()
            ):
                yield node, inside


def _followed(symbols: set[Symbol], doors: dict[str, dict[str, Symbol]]) -> set[Symbol]:
    """The same symbols, and those that they are only another door to."""
    found, left = set(symbols), list(symbols)
    while left:
        module, name = left.pop()
        leads = doors.get(module, {}).get(name)
        if leads is not None and leads not in found:
            found.add(leads)
            left.append(leads)
    return found
