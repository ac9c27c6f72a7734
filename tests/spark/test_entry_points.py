"""Programs that need Spark answer `--help` instead of running."""

from pathlib import Path

import pytest

from tests.entry_points import help_of, needs_spark, programs


@pytest.mark.parametrize("name", [name for name in programs() if needs_spark(name)])
def test_a_program_answers_help(name: str, tmp_path: Path) -> None:
    assert help_of(name, tmp_path).lower().startswith("usage: ")
