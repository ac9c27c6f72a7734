"""The applications load no framework, which a start would pay for; the bare one, which the layer
has, loads neither a server nor a library that most requests do not need."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("fastapi", "starlette", "pydantic", "anyio", "orjson")
SERVERS = ("uvicorn",)
RARE = ("jwt", "cryptography")  # 40 ms of a cold start


def loaded(module: str, names: tuple[str, ...]) -> str:
    """Which of the modules `names` an import of `module` loads."""
    code = f"import sys, {module}; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["graveler.api.start", "graveler.api.openapi"])
def test_the_bare_application_loads_no_framework_and_no_server(module: str) -> None:
    assert loaded(module, FRAMEWORKS + SERVERS + RARE) == "[]"


@pytest.mark.parametrize(
    "module", ["graveler.cli.support.service", "graveler.cli.support.s3_service"]
)
def test_a_service_loads_no_framework(module: str) -> None:
    assert loaded(module, FRAMEWORKS) == "[]"
    assert loaded(module, SERVERS) == str([*SERVERS])
