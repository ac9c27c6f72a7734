"""What the tests of jobs share."""

import pytest

from graveler import limits


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Steps are full with six rows, or as few as the module says."""
    monkeypatch.setattr(limits, "step_row_count", getattr(request.module, "ROWS", 6))
