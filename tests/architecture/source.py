"""What the rules look at: parsed modules, the imports in them, and violations.

A rule is a function from one `Module` to the violations in it, so that it runs on a
synthetic source as well as on the tree. Every violation names the remedy.
"""

import ast
import gc
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from io import StringIO
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = "graveler"
FUNCTIONS = "functions"
GENERATED = ("_pb2.py",)


_BEFORE_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)


@dataclass(frozen=True)
class Module:
    """One source file: its path below the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed at the first use: for most files outside the product the text is enough.

        A tree is about a thousand objects, which stay.  The collector of garbage does not look at
        them, neither while they are made nor later: that took more than twice the time of parsing.
        """
        was_on = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(self.text, filename=self.path)
        finally:
            gc.freeze()
            if was_on:
                gc.enable()

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Every class, at any depth."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @property
    def docstring(self) -> str:
        """What the module opens with, read without parsing the rest."""
        for token in tokenize.generate_tokens(StringIO(self.text).readline):
            if token.type == tokenize.STRING:
                return ast.get_docstring(ast.parse(token.string)) or ""
            if token.type not in _BEFORE_CODE:
                break
        return ""

    @property
    def dotted(self) -> tuple[str, ...]:
        """`graveler/kv/store.py` is ("graveler", "kv", "store")."""
        parts = self.path.removesuffix(".py").split("/")
        return tuple(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def component(self) -> str:
        """The folder or file directly below the package; "" for the package itself; "functions" for
        all that lies beside the package."""
        if self.dotted[0] == FUNCTIONS:
            return FUNCTIONS
        return self.dotted[1] if len(self.dotted) > 1 else ""


class Violation(NamedTuple):
    """One broken rule. `name` and `value` identify it in the exceptions file."""

    rule: str
    path: str
    line: int
    name: str
    value: int
    remedy: str

    @property
    def subject(self) -> str:
        return f"{self.path}:{self.name}" if self.name else self.path

    def __str__(self) -> str:
        what = f"{self.name} " if self.name else ""
        return f"{self.path}:{self.line}: {self.rule} {what}{self.value}: {self.remedy}"


Rule = Callable[[Module], Iterator[Violation]]


class Import(NamedTuple):
    """One imported module; `late` when it stands inside a function."""

    target: str
    line: int
    late: bool


def parse(path: str, text: str) -> Module:
    return Module(path, text)


def modules(*folders: str) -> list[Module]:
    """Every hand-written module in the folders, sorted by path.  A process parses each once at
    most."""
    return [module for folder in folders for module in _modules(folder)]


@cache
def _modules(folder: str) -> list[Module]:
    gc.collect()  # what other tests have left is found now: later it is frozen with the trees
    found = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        if not file.name.endswith(GENERATED):
            path = file.relative_to(ROOT).as_posix()
            found.append(parse(path, file.read_text(encoding="utf-8")))
    return found


def imports(module: Module) -> Iterator[Import]:
    """Every import, at any depth; `from a.b import c` yields `a.b.c`.

    Whether `c` is a module or a name in one does not matter to the rules: they compare prefixes.
    """
    for node, late in _statements(module.tree, late=False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, late)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import(f"{node.module or ''}.{alias.name}", node.lineno, late)


def _statements(node: ast.AST, *, late: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # contains no statement
        yield child, late
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _statements(child, late=late or inside)


def within(target: str, owner: str) -> bool:
    """True when the dotted or slashed name `target` is `owner` or lies in it."""
    return target == owner or target.startswith((owner + ".", owner + "/"))


def is_module(target: str) -> bool:
    """True when the dotted name is a file or folder of the tree, not a name in one."""
    path = ROOT.joinpath(*target.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()
