"""One case of each operation that schemathesis draws from our own document; its own judgement, our
own store.  `make soak` sends its systematic cases too: of defects that were planted, they found
none that the requests of `test_requests.py` do not find in an eighth of the time."""

from pathlib import Path

import pytest

from simulator.service import schema_fuzz
from simulator.service.process import serving
from simulator.service.schema_fuzz import SchemaFuzz

pytestmark = pytest.mark.slow


def test_answers_are_those_of_the_document(tmp_path: Path) -> None:
    with serving(tmp_path / "store", tmp_path / "log") as service:
        found = SchemaFuzz(service, tmp_path).run(seed=1, examples=1, systematic=False)
    assert found.wrong == ""
    assert found.requests > 100


def test_a_missing_program_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRAVELER_TOOLS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="make setup"):
        schema_fuzz.program()
