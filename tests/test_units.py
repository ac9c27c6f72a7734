"""The folders of `make check` are there."""

from tests.architecture.source import ROOT
from tests.units import folders


def test_each_folder_of_the_units_has_tests() -> None:
    names = folders()
    assert {"tests/architecture", "tests/engine", "tests/refs"} <= set(names)
    assert [name for name in names if not list((ROOT / name).rglob("test_*.py"))] == []
