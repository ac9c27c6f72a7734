"""Runs the steps of the image of `graveler gateway` on this machine: `make gateway-image`.

It needs an index of packages, so it is no part of `make test`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.aws.engines import ROOT
from tests.aws.test_gateway_image import STEPS, last_stage, only


def test_its_steps_make_an_installation_that_runs_and_needs_nothing_else(tmp_path: Path) -> None:
    """The steps run on this machine, in another folder and with the Python of the tests.  They get
    the packages from the index that pip is configured for."""
    here = {"/opt/graveler": str(tmp_path / "graveler"), "/build": str(tmp_path / "build")}
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"

    def moved(text: str) -> str:
        for place, other in here.items():
            text = text.replace(place, other)
        return re.sub(r"python3\.[0-9]+", python, text)

    def ran(words: list[str]) -> str:
        command = [sys.executable if word == "python" else moved(word) for word in words]
        variables = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=240
        )
        assert not done.returncode, f"{command}: {done.stderr[-2_000:]}"
        return done.stdout

    for step in STEPS[: STEPS.index(last_stage()[0])]:
        if step.word == "RUN":
            ran(step.command)
        elif step.word == "COPY":
            source, target = step.rest.split()
            place = Path(moved(target))
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
    entry = only("ENTRYPOINT").command
    assert "--stack" in ran([*entry, "--help"])
    where = ran(
        [
            entry[0],
            "-c",
            "import graveler.gateway.route, graveler.kv.dynamodb as d; print(d.__file__)",
        ]
    )
    assert where.startswith(here["/opt/graveler"])
