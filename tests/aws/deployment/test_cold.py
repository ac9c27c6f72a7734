"""`make bench-cold` measures the function as it is deployed; its requests are those of a start."""

from pathlib import Path

import pytest

from benchmarks import cold

pytestmark = pytest.mark.xdist_group("stack")


def test_a_cold_start_of_the_function(built: Path, tmp_path: Path) -> None:
    """Two versions of the secret; the key, then its user, groups and policies; the repository and
    the commit; the two ends of a range file.  The second request finds all of it in memory."""
    code, layer = built.parent / "ApiFunction", built.parent / "Dependencies" / "python"
    found = cold.measure(tmp_path, 1, code, layer)
    assert found["asked"] == {
        "GetSecretValue": 2,
        "BatchGetItem": 3,
        "GetItem": 3,
        "ranged GET": 2,
    }
    page = cold.report(found)
    assert "| the API function |" in page and "3 BatchGetItem, 3 GetItem" in page
    assert all(milliseconds > 0 for milliseconds in found["own"][:3] + found["empty"][:3])
