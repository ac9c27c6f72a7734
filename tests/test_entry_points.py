"""Everything that can be started answers `--help` instead of running."""

from pathlib import Path

import pytest

from tests.entry_points import help_of, is_shell, needs_spark, programs


def test_all_are_known() -> None:
    names = programs()
    assert len(names) >= 35
    assert {"graveler/__main__.py", "layers/build.py", "scripts/deploy.sh"} <= set(names)
    assert {"tests/units.py", "tests/kv/killed_writer.py", "tests/docs/test_s3.py"} <= set(names)


@pytest.mark.parametrize("name", [name for name in programs() if not needs_spark(name)])
def test_a_program_answers_help(name: str, tmp_path: Path) -> None:
    text = help_of(name, tmp_path)
    if is_shell(name):
        assert text.strip() and "sed -n" not in text
    else:
        assert text.lower().startswith("usage: ")
