"""The bare application loads no framework, because the layer ships none, and no library that most
requests do not need."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("fastapi", "starlette", "pydantic", "uvicorn", "orjson")
RARE = ("jwt", "cryptography")  # 40 ms of a cold start


@pytest.mark.parametrize("module", ["graveler.api.start", "graveler.api.openapi"])
def test_the_bare_application_loads_no_framework(module: str) -> None:
    names = FRAMEWORKS + RARE
    code = f"import sys, {module}; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
