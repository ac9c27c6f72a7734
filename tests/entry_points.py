"""What a person can start: modules and scripts.  Each answers `--help`, and then does nothing."""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FOLDERS = (
    *("benchmarks", "functions", "graveler", "infra", "layers", "scripts", "simulator", "tests"),
)
_PARTS_OF_OTHERS = ("tests/support/",)
# They import packages that the environment of the tests lacks, and answer in theirs.
_ELSEWHERE = ("tests/aws/locked_moto.py", "tests/gateway/by_hand/torch_client.py")
_STARTED = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)
_SHELL = (".ci/run",)
_BETWEEN = "\n--------\n"
_RUN_ALL = f"""
import runpy, sys
for at, path in enumerate(sys.argv[1:]):
    sys.stdout.write({_BETWEEN!r} if at else "")
    sys.argv = [path, "--help"]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        assert not end.code, path
"""


def programs() -> list[str]:
    """The files that do something when Python or a shell runs them."""
    files = [file for name in _FOLDERS for file in sorted((ROOT / name).rglob("*.py"))]
    started = [file for file in files if _STARTED.search(file.read_text("utf-8"))]
    files = [*started, *sorted(ROOT.glob("scripts/*.sh"))]
    names = [*(str(file.relative_to(ROOT)) for file in files), *_SHELL]
    return [name for name in names if not name.startswith((*_PARTS_OF_OTHERS, *_ELSEWHERE))]


def is_shell(name: str) -> bool:
    """Whether a shell runs it."""
    return name.endswith(".sh") or name in _SHELL


def needs_spark(name: str) -> bool:
    """Whether it imports PySpark before it reads its arguments."""
    return name in (
        "benchmarks/spark_runs.py",
        "benchmarks/spark_tables.py",
        "graveler/spark/job.py",
        "infra/spark_job.py",
        "simulator/soak/spark_driver.py",
        "simulator/soak/spark_kills.py",
        "simulator/soak/spark_speculation.py",
        "tests/spark/every_verb.py",
    )


def help_of(name: str, folder: Path) -> str:
    """What a program answers to `--help`.  It is started in `folder`, and must write nothing there,
    nor change a file of the project that is younger than the folder."""
    if is_shell(name):
        command = ["bash" if name in _SHELL else "sh", str(ROOT / name)]
    elif name.split("/")[0] in ("infra", "layers"):
        command = [sys.executable, str(ROOT / name)]
    else:
        module = name.removesuffix(".py").replace("/", ".").removesuffix(".__main__")
        command = [sys.executable, "-m", module]
    return _output_of([*command, "--help"], folder)


def helps_of(names: Sequence[str], folder: Path) -> Mapping[str, str]:
    """As `help_of`, of Python programs in one process."""
    paths = [str(ROOT / name) for name in names]
    said = _output_of([sys.executable, "-c", _RUN_ALL, *paths], folder)
    return dict(zip(names, said.split(_BETWEEN), strict=True))


def _output_of(command: Sequence[str], folder: Path) -> str:
    run = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, ""), run
    assert not list(folder.iterdir())
    return run.stdout
