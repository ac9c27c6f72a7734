"""The schemas of JSON are only added to."""

from scripts.cli_schemas import document
from tests.cli.kept_names import broken, names, read


def test_no_name_of_json_is_removed_or_retyped() -> None:
    assert broken(read(), names(document())) == []


def test_every_name_of_json_is_kept() -> None:
    missing = names(document()).keys() - read().keys()
    assert not missing, f"run python -m tests.cli.kept_names: {sorted(missing)}"
