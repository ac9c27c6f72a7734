"""Runs schemathesis, an external program, against the OpenAPI document of a served store.

    case = SchemaFuzz(service, folder)
    case.run(seed, examples)        what it sent, and what it found wrong

Schemathesis draws valid and broken requests from the document, and checks each answer against the
document: no server error (501 is allowed: not served here), documented statuses, content types and
schemas.  Most requests name a repository that exists.  The program is looked for in
`$GRAVELER_TOOLS`, or in `.venv-tools/bin` beside the package.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simulator.service.process import KEY, SECRET, LiveService

ROOT = Path(__file__).parents[2]
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
_REPOSITORY = "drawn"
_BRANCHES = ("branch", "ref", "sourceRef", "leftRef", "rightRef", "destinationBranch", "commitId")
_CONFIGURATION = f"""\
[parameters]
"path.repository" = "{_REPOSITORY}"
{chr(10).join(f'"path.{name}" = "main"' for name in _BRANCHES)}

[[operations]]
include-operation-id = "deleteRepository"
parameters = {{ "path.repository" = "another" }}

[[operations]]
include-operation-id = "deleteBranch"
parameters = {{ "path.branch" = "another" }}

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "501"]
"""
_SENT = re.compile(r"([\d,]+) generated")
_SHOWN = 6_000


class Finding(NamedTuple):
    """What a run sent, and what was wrong; "" if nothing."""

    requests: int
    wrong: str


@dataclass(frozen=True, slots=True)
class SchemaFuzz:
    """A served store, and a folder for the files of schemathesis."""

    service: LiveService
    folder: Path

    def run(self, seed: int, examples: int, *, systematic: bool = True) -> Finding:
        """Send up to `examples` cases for each operation, after thousands of `systematic` ones.
        The seed determines them, except for what earlier runs left in the store."""
        self._ground()
        configuration = self.folder / "schemathesis.toml"
        configuration.write_text(_CONFIGURATION)
        command = [
            *(sys.executable, "-m", "simulator.soak.leash"),
            *(str(program()), "--config-file", str(configuration), "run"),
            f"http://{self.service.host}:{self.service.port}/openapi.json",
            *("--auth", f"{KEY}:{SECRET}", "--checks", ",".join(_CHECKS)),
            *("--phases", "coverage,fuzzing" if systematic else "fuzzing", "--seed", str(seed)),
            *("--max-examples", str(examples), "--generation-database", "none", "--no-shrink"),
            *("--continue-on-failure", "--warnings", "off", "--no-color"),
        ]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            said = process.stdout.read()
            code = process.wait()
        sent = _SENT.search(said)
        requests = int(sent[1].replace(",", "")) if sent else 0
        if self.service.process.poll() is not None:
            return Finding(requests, "the service ended")
        return Finding(requests, "" if code == 0 and requests else _told(said))

    def _ground(self) -> None:
        """Create a repository with a commit; it may exist already."""
        where = f"/repositories/{_REPOSITORY}"
        with self.service.client() as client:
            given = {"name": _REPOSITORY, "storage_namespace": f"local://{_REPOSITORY}/"}
            client.send("POST", "/repositories", body=given)
            client.send("POST", f"{where}/branches/main/objects", {"path": "a"}, b"content")
            client.send("POST", f"{where}/branches/main/commits", body={"message": "m"})


def program() -> Path:
    """Where schemathesis is.  Raises `FileNotFoundError` with a remedy."""
    given = os.environ.get("GRAVELER_TOOLS", "")
    folder = Path(given) if given else ROOT / ".venv-tools" / "bin"
    found = folder / "schemathesis"
    if not found.exists():
        raise FileNotFoundError(
            f"schemathesis is not there: make setup, or set GRAVELER_TOOLS: path={found}"
        )
    return found


def _told(said: str) -> str:
    """The part of the output about failures."""
    at = max(said.find("= FAILURES ="), said.find("= ERRORS ="), 0)
    return said[at : at + _SHOWN]
