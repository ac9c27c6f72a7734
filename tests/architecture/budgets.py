"""How large things may be, what must be said about them, and what they must not be called."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import Module, Violation

CONFTEST_LINES_MAX = 200
FUNCTION_LINES_MAX = 60
CLASS_LINES_MAX = 200
CLASS_METHODS_MAX = 12
PROTOCOL_METHODS_MAX = 9
# Nouns and adjectives of the field that look like participles.
NOUNS = frozenset(("embedded", "feed", "framing", "listing", "need", "routing", "staging"))
# Participles without an ending, and pronouns: none of these names a thing.
IRREGULAR = frozenset(
    [
        "asked",
        "begun",
        "beaten",
        "done",
        "drawn",
        "found",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "led",
        "made",
        "meant",
        "mine",
        "ours",
        "put",
        "said",
        "seen",
        "sent",
        "sewn",
        "shown",
        "spent",
        "taken",
        "theirs",
        "there",
        "told",
        "wanted",
        "what",
        "who",
        "written",
    ]
)
# Local names that say nothing about what they hold.
IDLE_NAMES = frozenset(
    [
        "asked",
        "found",
        "given",
        "kept",
        "made",
        "meant",
        "mine",
        "ours",
        "said",
        "theirs",
        "there",
        "told",
        "wanted",
        "what",
        "who",
    ]
)
# Bases of records.  A class with another base may be an error, and errors are named by a state.
RECORD_BASES = frozenset(("Enum", "Generic", "NamedTuple", "Protocol", "StrEnum"))
EMPTY_NAMES = frozenset(
    ("helper", "helpers", "util", "utils", "manager", "common", "base", "data", "info", "process")
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def conftest_lines(module: Module) -> Iterator[Violation]:
    """A conftest.py has at most 200 lines: fixtures that many tests share, and nothing else."""
    count = len(module.text.splitlines())
    if module.path.endswith("conftest.py") and count > CONFTEST_LINES_MAX:
        remedy = f"at most {CONFTEST_LINES_MAX} lines: move fixtures beside the tests that use them"
        yield Violation("conftest_lines", module.path, 1, "", count, remedy)


def function_lines(module: Module) -> Iterator[Violation]:
    """A function has at most 60 lines, its docstring included."""
    for name, node in _functions(module.tree):
        count = _lines(node)
        if count > FUNCTION_LINES_MAX:
            remedy = (
                f"at most {FUNCTION_LINES_MAX} lines: keep the branches, move straight lines out"
            )
            yield Violation("function_lines", module.path, node.lineno, name, count, remedy)


def class_lines(module: Module) -> Iterator[Violation]:
    """A class has at most 200 lines."""
    for node in module.classes:
        if _lines(node) > CLASS_LINES_MAX:
            remedy = f"at most {CLASS_LINES_MAX} lines: verbs are functions, split the state"
            yield Violation(
                "class_lines", module.path, node.lineno, node.name, _lines(node), remedy
            )


def class_methods(module: Module) -> Iterator[Violation]:
    """A class has at most 12 public methods, a Protocol at most 9 of any kind."""
    for node in module.classes:
        methods = [each for each in node.body if isinstance(each, Function)]
        if _is_protocol(node):
            count, limit = len(methods), PROTOCOL_METHODS_MAX
        else:
            count = len([each for each in methods if not each.name.startswith("_")])
            limit = CLASS_METHODS_MAX
        if count > limit:
            remedy = f"at most {limit} methods: two roles need two classes"
            yield Violation("class_methods", module.path, node.lineno, node.name, count, remedy)


def module_docstring(module: Module) -> Iterator[Violation]:
    """Every module opens with a docstring, but for the empty `__init__.py` of a test folder."""
    if module.path.startswith("tests/") and not module.text.strip():
        return
    if not module.docstring.strip():
        remedy = "open with what it is, what always holds, and who may use it"
        yield Violation("module_docstring", module.path, 1, "", 1, remedy)


def contract_docstring(module: Module) -> Iterator[Violation]:
    """Methods of a Protocol and public verbs of the engine say what they promise."""
    promised: list[tuple[str, Function]] = []
    for node in module.classes:
        if _is_protocol(node):
            promised += [
                (f"{node.name}.{each.name}", each)
                for each in node.body
                if isinstance(each, Function)
            ]
    if module.component == "engine":
        promised += [
            (each.name, each)
            for each in module.tree.body
            if isinstance(each, Function) and not each.name.startswith("_")
        ]
    for name, each in promised:
        if not ast.get_docstring(each):
            remedy = "say before, after, errors, atomicity and cost in requests"
            yield Violation("contract_docstring", module.path, each.lineno, name, 1, remedy)


def empty_name(module: Module) -> Iterator[Violation]:
    """No module or class is called after nothing (helper, manager, …)."""
    named = [(module.dotted[-1], 1)]
    named += [(node.name, node.lineno) for node in module.classes]
    for name, line in named:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
        last = words[-1].lower() if words else ""
        merge_base = last == "base" and len(words) > 1 and words[-2].lower() == "merge"
        if last in EMPTY_NAMES and not merge_base:
            remedy = f"{last} names nothing: call it what it is or does"
            yield Violation("empty_name", module.path, line, name, 1, remedy)


def participle_name(module: Module) -> Iterator[Violation]:
    """A module is named by a thing or by what its main function does, never by a participle."""
    name = module.dotted[-1]
    if module.path.endswith("__init__.py"):
        return
    if (name.endswith(("ing", "ed")) and name not in NOUNS) or name in IRREGULAR:
        remedy = "name the thing (`sources`) or the verb (`merge`)"
        yield Violation("participle_name", module.path, 1, name, 1, remedy)


def participle_class(module: Module) -> Iterator[Violation]:
    """A record is named by the thing that it is, never by a single participle or pronoun."""
    for node in module.classes:
        bases = [each.value if isinstance(each, ast.Subscript) else each for each in node.bases]
        if {getattr(each, "id", getattr(each, "attr", "")) for each in bases} - RECORD_BASES:
            continue
        word = node.name.lstrip("_").lower()
        is_word = len(re.findall(r"[A-Z]", node.name)) == 1
        if is_word and word not in NOUNS and (word.endswith("ed") or word in IRREGULAR):
            remedy = "name the thing (`JobRequest`), not what happened to it (`Asked`)"
            yield Violation("participle_class", module.path, node.lineno, node.name, 1, remedy)


def idle_name(module: Module) -> Iterator[Violation]:
    """No variable or parameter of a function has a name that tells nothing (`found`, `said`)."""
    for name, node in _functions(module.tree):
        bound = {each.arg: each for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                bound.setdefault(each.id, each)
        for word in sorted(bound.keys() & IDLE_NAMES):
            remedy = "name what it holds: `row`, `branch`, `match`, `answer`"
            line = bound[word].lineno
            yield Violation("idle_name", module.path, line, f"{name}.{word}", 1, remedy)


def _lines(node: Function | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_protocol(node: ast.ClassDef) -> bool:
    bases = [each.value if isinstance(each, ast.Subscript) else each for each in node.bases]
    return any(getattr(each, "id", getattr(each, "attr", "")) == "Protocol" for each in bases)


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name, methods and nested ones too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # contains no function
        if isinstance(child, Function):
            yield prefix + child.name, child
        named = isinstance(child, Function | ast.ClassDef)
        inner = f"{prefix}{child.name}." if named else prefix  # type: ignore[union-attr]
        yield from _functions(child, inner)
