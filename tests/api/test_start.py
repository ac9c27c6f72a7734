"""The bare application loads no framework: the layer of the functions does not ship one."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("fastapi", "starlette", "pydantic", "uvicorn", "orjson")


@pytest.mark.parametrize("module", ["graveler.api.start", "graveler.api.openapi"])
def test_the_bare_application_loads_no_framework(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {FRAMEWORKS} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
