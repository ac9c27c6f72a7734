"""Completion in a real bash, which splits words and quotes as it does for people."""

import os
import shlex
from pathlib import Path

from tests.cli.commands import PROGRAM, Client, Terminal, terminal
from tests.cli.conftest import Lake


def shell(user: Client, folder: Path) -> Terminal:
    """A bash on a terminal, in a folder, which has read the script of completion."""
    programs = user.home / "bin"
    programs.mkdir()
    program = programs / "graveler"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    bash = ("bash", "--norc", "--noprofile", "-i")
    variables = {"PATH": path, "TERM": "dumb", "INPUTRC": os.devnull, "PS1": "$ "}
    shown = terminal(user, folder=folder, program=bash, **variables)
    shown.type('eval "$(graveler completion bash)"; echo rea""dy\n')
    shown.until("ready")
    return shown


def test_a_word_is_completed_as_a_person_types_it(lake: Lake, tmp_path: Path) -> None:
    name, user = lake.name, lake.user
    user.run("branch", "create", f"{name}/dev")
    lake.put("sales/2026.csv")
    lake.put("my sales.csv")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "local sales.csv").touch()
    bash = shell(user, folder)

    def completed(line: str, words: str) -> None:
        bash.type("\x15")  # deletes the line before
        bash.tab(line, words)

    try:
        completed("graveler cher", "cherry-pick ")
        completed(f"graveler ls {name}/d", f"{name}/dev ")
        completed(f"graveler ls lakefs://{name}/d", f"lakefs://{name}/dev ")
        completed(f"graveler merge {name}/main :d", ":dev ")
        completed(f"graveler log {name}/main --stop-at=d", "--stop-at=dev ")
        completed(f"graveler ls {name}/main/sa", "/sales/")
        bash.tab("2", "2026.csv ")  # no space was put after the slash
        completed(f"graveler cat lakefs://{name}/main/my", "/my\\ sales.csv ")
        completed(f"graveler cat {name}/main/my\\ s", "/my\\ sales.csv ")
        completed(f'graveler cat "lakefs://{name}/main/my s', '/my sales.csv" ')
        completed("graveler cp loc", "local\\ sales.csv ")
        completed("graveler upload loc", "local\\ sales.csv ")
    finally:
        bash.type("\x15exit\n")
        bash.end()
