"""The definition of the image of `graveler gateway`: it is read here, and built elsewhere.
`make gateway-image` runs its steps (image_steps.py)."""

import json
import re
import subprocess
import sys
from typing import NamedTuple

from graveler.cli.commands.serve import gateway, options_of
from graveler.cli.support.serve_options import GatewayOptions
from tests.aws.engines import ROOT
from tests.aws.locked_packages import pins

DOCKERFILE = ROOT / "infra" / "gateway" / "Dockerfile"
LOCK = ROOT / "requirements" / "gateway.txt"
MODULE = "graveler"


class Step(NamedTuple):
    """One instruction: its word and the rest of its line."""

    word: str
    rest: str

    @property
    def command(self) -> list[str]:
        """The words of a command that no shell reads."""
        words: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return words


STEPS = [
    Step(*line.split(" ", 1))
    for line in DOCKERFILE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def every(word: str) -> list[Step]:
    return [step for step in STEPS if step.word == word]


def only(word: str) -> Step:
    [step] = every(word)
    return step


def last_stage() -> list[Step]:
    begins = max(number for number, step in enumerate(STEPS) if step.word == "FROM")
    return STEPS[begins:]


def test_packages_are_those_of_the_lock_by_their_hashes() -> None:
    [install] = [step.command for step in every("RUN") if "install" in step.command]
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(install)
    [copied] = [step.rest.split()[0] for step in every("COPY") if "requirements/" in step.rest]
    assert ROOT / copied == LOCK and install[install.index("--requirement") + 1].endswith(LOCK.name)


def test_it_does_not_run_as_root() -> None:
    [user] = [step.rest for step in last_stage() if step.word == "USER"]
    assert re.fullmatch(r"[1-9][0-9]{3,}:[1-9][0-9]{3,}", user)


def started() -> GatewayOptions:
    """The options with which a container of a stack runs."""
    words = only("ENTRYPOINT").command
    assert words[1:4] == ["-P", "-m", MODULE]
    assert words[4] == "gateway"
    more = ["--stack", "lake", "--bucket", "data"]
    return options_of(gateway.make_context("gateway", [*words[5:], *more]).params, {})


def test_it_runs_the_command_on_the_port_that_it_exposes() -> None:
    listen = started().listen
    assert (listen.host, str(listen.port)) == ("0.0.0.0", only("EXPOSE").rest)
    ran = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, "--version"], cwd=ROOT, capture_output=True, check=True
    )
    assert ran.stdout.startswith(b"graveler ")


def test_the_lock_has_the_versions_of_the_tests() -> None:
    locked, tested = pins(LOCK), pins(ROOT / "requirements" / "dev.txt")
    assert locked.items() <= tested.items()
    assert not locked.keys() & {"boto3", "mangum", "pyyaml"}
