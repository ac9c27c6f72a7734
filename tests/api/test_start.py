"""The application, which the layer has, loads neither a server nor a library that most requests do
not need."""

import subprocess
import sys

import pytest

SERVERS = ("uvicorn",)
RARE = (
    *("jwt", "cryptography"),  # 40 ms of a cold start
    *("starlette.testclient", "httpx", "multipart", "jinja2", "orjson"),
)


def loaded(module: str, names: tuple[str, ...]) -> str:
    """Which of the modules `names` an import of `module` loads."""
    code = f"import sys, {module}; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["graveler.api.app", "graveler.api.start"])
def test_the_application_loads_no_server(module: str) -> None:
    assert loaded(module, SERVERS + RARE) == "[]"


@pytest.mark.parametrize(
    "module", ["graveler.cli.support.service", "graveler.cli.support.s3_service"]
)
def test_a_service_loads_its_server(module: str) -> None:
    assert loaded(module, SERVERS) == str([*SERVERS])
