"""The definition of the image of `graveler gateway`: it is read here, and built elsewhere.
`make gateway-image` runs its steps (image_steps.py)."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from typing import NamedTuple
from urllib.parse import urlsplit

from graveler.api.pages import HEALTH_PATH
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


def test_the_base_is_pinned_to_a_version_and_its_folders_are_of_that_version() -> None:
    tags = [step.rest.removesuffix(" AS build") for step in every("FROM")]
    assert len(set(tags)) == 1
    version = re.fullmatch(r"python:(3\.[0-9]+)\.[0-9]+-slim-[a-z]+", tags[0])
    assert version is not None, tags
    assert set(re.findall(r"python3\.[0-9]+", DOCKERFILE.read_text(encoding="utf-8"))) == {
        f"python{version[1]}"
    }


def test_no_step_is_read_by_a_shell_or_fetches_anything_itself() -> None:
    assert {step.word for step in STEPS} <= {
        *("FROM", "COPY", "RUN", "VOLUME", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
        "ENTRYPOINT",
    }
    for step in (*every("RUN"), only("HEALTHCHECK"), only("ENTRYPOINT")):
        assert step.command[0] in ("python", "/opt/graveler/bin/python"), step


def test_packages_are_those_of_the_lock_by_their_hashes() -> None:
    [install] = [step.command for step in every("RUN") if "install" in step.command]
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(install)
    [copied] = [step.rest.split()[0] for step in every("COPY") if "requirements/" in step.rest]
    assert ROOT / copied == LOCK and install[install.index("--requirement") + 1].endswith(LOCK.name)


def test_the_lock_has_the_versions_of_the_tests() -> None:
    locked, tested = pins(LOCK), pins(ROOT / "requirements" / "dev.txt")
    assert locked.items() <= tested.items()
    assert not locked.keys() & {"boto3", "mangum", "pyyaml"}


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


def test_its_health_is_asked_at_a_path_that_answers() -> None:
    [url] = re.findall(r"http://[^']+", only("HEALTHCHECK").command[-1])
    assert (urlsplit(url).port, urlsplit(url).path) == (started().listen.port, HEALTH_PATH)


def test_all_that_is_copied_is_sent_to_the_builder_and_little_else() -> None:
    lines = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "nothing is sent that no rule names"
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source
        for step in every("COPY")
        if "--from" not in step.rest
        for source in step.rest.split()[:-1]
    }
    assert copied == sent and all((ROOT / each).exists() for each in sent)
    left_out = [rule for rule in rules[1:] if not rule.startswith("!")]
    for secret in ("tests/support", "graveler/__pycache__", "graveler/api/__pycache__"):
        assert any(fnmatch(secret, rule) or fnmatch("/" + secret, rule) for rule in left_out), (
            secret
        )
