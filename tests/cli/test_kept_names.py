"""The schemas of JSON are only added to."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from scripts.cli_schemas import document
from tests.cli.kept_names import broken, names, read


def test_no_name_of_json_is_removed_or_retyped() -> None:
    assert broken(read(), names(document())) == []


def test_every_name_of_json_is_kept() -> None:
    missing = names(document()).keys() - read().keys()
    assert not missing, f"run python -m tests.cli.kept_names: {sorted(missing)}"


def _commit(whole: dict[str, Any]) -> dict[str, Any]:
    commit: dict[str, Any] = whole["$defs"]["Commit"]
    return commit


def _without(whole: dict[str, Any]) -> None:
    del _commit(whole)["properties"]["committer"]


def _retyped(whole: dict[str, Any]) -> None:
    _commit(whole)["properties"]["committer"] = {"type": "integer"}


def _widened(whole: dict[str, Any]) -> None:
    _commit(whole)["properties"]["committer"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def _at_times_absent(whole: dict[str, Any]) -> None:
    _commit(whole)["required"].remove("committer")


def _item(whole: dict[str, Any]) -> None:
    _commit(whole)["properties"]["parents"]["items"] = {"type": "integer"}


def _no_command(whole: dict[str, Any]) -> None:
    del whole["commands"]["commit"]


@pytest.mark.parametrize(
    "change", [_without, _retyped, _widened, _at_times_absent, _item, _no_command]
)
def test_what_scripts_would_miss_is_noticed(change: Callable[[dict[str, Any]], None]) -> None:
    whole = copy.deepcopy(document())
    change(whole)
    assert any(line.startswith("commit") for line in broken(names(document()), names(whole)))


def test_additions_are_none() -> None:
    whole = copy.deepcopy(document())
    _commit(whole)["properties"]["further"] = {"type": "string"}
    whole["commands"]["new"] = {"type": "string"}
    whole["commands"]["stat"] = {"anyOf": [whole["commands"]["stat"], {"type": "array"}]}
    assert broken(names(document()), names(whole)) == []
