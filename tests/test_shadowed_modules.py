"""The current folder may be a download: no process that we start imports its modules."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A Python that is started with a program or a module, in code, in a shell or in JSON.
STARTED = re.compile(r"""(?:sys\.executable|\bpython[0-9.]*\}?["']?),?\s+["']?-[cm]\b""")
# They run while an image is built.  Scripts run in the top folder of a clone, as `make` does.
OURS = {"infra/gateway/Dockerfile": ("venv", "pip", "compileall")}


@pytest.mark.parametrize("folder", ["graveler", "functions", "layers", "infra"])
def test_every_python_that_is_started_leaves_the_current_folder_out(folder: str) -> None:
    found = []
    for file in sorted((ROOT / folder).rglob("*")):
        if file.suffix in (".py", ".yaml", ".sh", "") and file.is_file():
            name = file.relative_to(ROOT).as_posix()
            for line in file.read_text("utf-8").splitlines():
                is_ours = any(f'"{word}"' in line for word in OURS.get(name, ()))
                if STARTED.search(line) and not is_ours:
                    found.append(f"{name}: {line.strip()}")
    assert not found, "\n".join(["add -P:", *found])
