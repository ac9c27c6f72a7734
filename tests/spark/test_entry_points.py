"""Programs that need Spark answer `--help` instead of running."""

from pathlib import Path

from tests.entry_points import helps_of, needs_spark, programs


def test_programs_answer_help(tmp_path: Path) -> None:
    """In one process: most of the time of each is the import of PySpark and of pandas."""
    names = [name for name in programs() if needs_spark(name)]
    for name, text in helps_of(names, tmp_path).items():
        assert text.lower().startswith("usage: "), name
