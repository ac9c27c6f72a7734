"""The doors of `pieces.py` and `edits.py`: what an edit finds, and what it refuses."""

import ast
from textwrap import dedent

import pytest

from tests.simulation.edits import Edit, edited, patched
from tests.simulation.pieces import NoVariant

SOURCE = """
class Box:
    def put(self, row):
        return self.store(row, self.order, version=row.version)


def put(kv, row):
    first = kv.get(row)
    if first is None or first.version < row.version:
        kv.set(row, first)
        kv.note(row)
    return kv.get(row, again=True)


def outer(kv):
    def put(row):
        return kv.set(row)

    return put
"""


def _edited(function: str, old: str, new: str) -> str:
    """Only the function that was edited."""
    tree = edited(SOURCE, [Edit("module", function, old, new)])
    before = {ast.unparse(node) for node in ast.parse(SOURCE).body}
    (changed,) = (node for node in tree.body if ast.unparse(node) not in before)
    return ast.unparse(changed)


@pytest.mark.parametrize(
    "function, old, new, line",
    [
        ("put", "first . version<row.version", "True", "if first is None or True:"),
        ("put", "... is None or __later__", "__later__", "if first.version < row.version:"),
        ("put", "kv.get(*__row__, again=True)", "kv.get(*__row__)", "return kv.get(row)"),
        ("put", "__first__ = kv.get(__row__)", "__first__ = __row__", "first = row"),
        ("put", "kv.set(__row__, ...)", "kv.set(__row__)", "kv.set(row)"),
        ("put", "return __value__", "return [__value__]", "return [kv.get(row, again=True)]"),
        ("outer.put", "kv.set(...)", "None", "return None"),
        ("Box.put", "self.store(*__a__, version=...)", "self.store(*__a__)", "self.order)"),
        ("Box.put", "self.store(..., __o__, version=__v__)", "(__o__, __v__)", "(self.order, row"),
    ],
)
def test_an_expression_is_replaced(function: str, old: str, new: str, line: str) -> None:
    assert line in _edited(function, old, new)


def test_statements_are_replaced_wherever_they_stand() -> None:
    moved = _edited("put", "kv.set(*__row__)\nkv.note(...)", "kv.late()\nkv.set(*__row__)")
    assert "        kv.late()\n        kv.set(row, first)\n    return" in moved


def test_what_was_found_is_repeated() -> None:
    twice = _edited("put", "if ...:\n    __body__", "__body__\nif kv:\n    __old__")
    body = "kv.set(row, first)\n{0}kv.note(row)\n"
    assert f"    {body.format('    ')}    if kv:\n        if first is None" in twice


def test_a_removed_statement_leaves_a_body() -> None:
    assert _edited("outer.put", "return ...", "").count("pass") == 1


@pytest.mark.parametrize(
    "function, old, why",
    [
        ("put", "kv.del_(row)", "module:put: found 0 times"),
        ("put", "kv.get(...)", "found 2 times"),
        ("put", "kv.get(row, again=False)", "found 0 times"),
        ("put", "kv.set(__x__, __x__)", "found 0 times"),
        ("get", "kv", "get is defined 0 times"),
        ("outer.put.again", "kv", "again is defined 0 times"),
    ],
)
def test_a_piece_that_does_not_stand_once_is_refused(function: str, old: str, why: str) -> None:
    with pytest.raises(NoVariant, match=why):
        edited(dedent(SOURCE), [Edit("module", function, old, "None")])


def test_an_edit_that_changes_nothing_is_refused() -> None:
    same = Edit("engine.janitor", "_named", "return __value__", "return __value__")
    with pytest.raises(NoVariant, match="changes nothing"), patched([same]):
        pass
