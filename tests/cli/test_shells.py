"""Completion in real shells, which split words and quote as they do for people.

Each shell runs on a terminal.  A key shows the line with its cursor, so the tests see what was
inserted, with the space that follows or does not.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.commands import PROGRAM, TABS_MAX, Client, Terminal, terminal
from tests.cli.conftest import Lake

_CLEAR = "\x15"  # deletes the line before
_SHOW = "\x07"
_START = {
    "bash": (
        ("bash", "--norc", "--noprofile", "-i"),
        """_show() { printf '<<%s>>%s\\n' "$READLINE_LINE"; }; bind -x '"\\C-g": _show'; """
        'eval "$(graveler completion bash)"; echo rea""dy\n',
    ),
    "zsh": (
        ("zsh", "-f", "-i"),
        "unsetopt prompt_sp; autoload -Uz compinit; compinit -u -D; bindkey -e; "
        "show() { print -rn -- '<<'$BUFFER'>>' }; zle -N show; bindkey '^G' show; "
        'eval "$(graveler completion zsh)"; echo rea""dy\n',
    ),
    "fish": (
        ("fish", "--no-config", "-i"),
        "function show; echo; echo '<<'(commandline)'>>'; end; bind \\cg show; "
        'graveler completion fish | source; echo rea""dy\n',
    ),
}
_PROGRAM = f"""#!/bin/sh
if [ -n "$_GRAVELER_COMPLETE" ] || [ "$1" = completion ]; then
    exec {shlex.join(PROGRAM)} "$@"
fi
printf '[[%s]]\\n' "$2"
"""
SHELLS = [
    pytest.param(
        name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"{name} is not installed")
    )
    for name in _START
]


class Shell:
    """A shell that has read the script of completion."""

    def __init__(self, name: str, shown: Terminal) -> None:
        self.name = name
        self._shown = shown

    def completed(self, line: str) -> str:
        """The line after Tab.

        The server may be too slow for a completion, so Tab is pressed again if nothing changed."""
        self._shown.type(_CLEAR + line)
        for _ in range(TABS_MAX):
            after = self.tab()
            if after != line:
                return after
        return line

    def tab(self) -> str:
        """Press Tab; the line."""
        self._shown.text = ""
        self._shown.type("\t" + _SHOW)
        return self._line()

    def typed(self, text: str) -> str:
        """Type more, and press Tab; the line."""
        self._shown.type(text)
        return self.tab()

    def offered(self, line: str) -> str:
        """What the terminal shows after Tab, twice."""
        self._shown.type(_CLEAR + line + "\t")
        self.tab()
        return self._shown.text

    def argument(self) -> str:
        """Run the line; the argument that the command is given."""
        self._shown.text = ""
        self._shown.type("\n")
        while "]]" not in self._shown.text:
            assert self._shown.reads(), self._shown.text  # a quote is open
        found = re.search(r"\[\[(.*)\]\]", self._shown.text)
        assert found is not None, self._shown.text
        return found[1]

    def _line(self) -> str:
        self._shown.until(">>")
        line = re.search(r"<<(.*)>>", self._shown.text)
        assert line is not None, self._shown.text
        return line[1]


@contextmanager
def started(
    name: str, user: Client, folder: Path, locale: Mapping[str, str] = {"LANG": "C.UTF-8"}
) -> Iterator[Shell]:
    """A shell on a terminal, in a folder.  Its `graveler` completes, or shows its argument."""
    programs = user.home / "bin"
    programs.mkdir()
    program = programs / "graveler"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    words, script = _START[name]
    variables = {
        "PATH": path,
        "TERM": "vt100",
        "INPUTRC": os.devnull,
        "PS1": "$ ",
        **locale,
    }
    shown = terminal(user, folder=folder, program=words, **variables)
    shown.type(script)
    shown.until("ready")
    try:
        yield Shell(name, shown)
    finally:
        shown.type(_CLEAR + "exit\n")
        shown.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    (made / "local sales.csv").touch()
    return made


@pytest.mark.parametrize("name", SHELLS)
def test_a_word_is_completed_as_a_person_types_it(name: str, lake: Lake, folder: Path) -> None:
    repo, user = lake.name, lake.user
    user.run("branch", "create", f"{repo}/dev")
    lake.put("sales/2026.csv")
    with started(name, user, folder) as shell:

        def completed(line: str) -> str:
            return shell.completed(f"graveler {line}").removeprefix("graveler ")

        assert completed("cher") == "cherry-pick "
        assert completed(f"ls {repo}") == f"ls {repo}/"
        assert completed(f"ls {repo}/d") == f"ls {repo}/dev "
        assert completed(f"ls lakefs://{repo}/d") == f"ls lakefs://{repo}/dev "
        assert completed(f"merge {repo}/main :d") == f"merge {repo}/main :dev "
        assert completed(f"log {repo}/main --stop-at=d") == f"log {repo}/main --stop-at=dev "
        assert completed(f"ls {repo}/main/sa") == f"ls {repo}/main/sales/"
        whole = f"graveler ls {repo}/main/sales/2026.csv "
        assert shell.typed("2") == whole  # no space was put after the slash
        assert completed("cp loc") == "cp local\\ sales.csv "
        assert completed("upload loc") == "upload local\\ sales.csv "


PATHS = {
    "my": "my sales.csv",
    "my\\ s": "my sales.csv",
    "a": "a,b.csv",
    "a,": "a,b.csv",
    "k": "k:l/",
    "k:l/": "k:l/x",
    "br": "br[1]{2}.csv",
    "it": "it's",
    "q": 'q"$x`',
    "ba": "back\\slash",
    "da": "date=2026/",
    "date=2026/": "date=2026/all days",
}


@pytest.mark.parametrize("name", SHELLS)
def test_what_a_shell_would_split_or_expand_is_quoted(name: str, lake: Lake, folder: Path) -> None:
    for path in {*PATHS.values(), "date=2026/all days", "k:l/x"}:
        if not path.endswith("/"):
            lake.put(path)
    start = f"{lake.name}/main"
    with started(name, lake.user, folder) as shell:
        for typed, path in PATHS.items():
            line = shell.completed(f"graveler cat {start}/{typed}")
            assert shlex.split(line)[2:] == [f"{start}/{path}"]
            assert line.endswith("/" if path.endswith("/") else " ")
        quoted = shell.completed(f'graveler cat "lakefs://{start}/my s')
        assert quoted == f'graveler cat "lakefs://{start}/my sales.csv" '
        dollar = shell.completed(f'graveler cat "{start}/q')
        backtick = "`" if name == "fish" else "\\`"
        assert dollar == f'graveler cat "{start}/q\\"\\$x{backtick}" '
        apostrophe = shell.completed(f"graveler cat '{start}/it")
        inner = "it\\'s" if name == "fish" else "it'\\''s"
        assert apostrophe == f"graveler cat '{start}/{inner}' "


CODE = "é;touch pwn;$(touch${IFS}pwn)`touch pwn`"
QUOTES = 'it\'s "x" !!y'
FORMS = {
    '"NAME"/main/code/': CODE,
    "'NAME'/main/code/": CODE,
    'NAME/"main/code/': CODE,
    "NAME/'main/code/": CODE,
    'NAME/"main/quotes/': QUOTES,
    "NAME/'main/quotes/": QUOTES,
    "NAME/'main'/quotes/": QUOTES,
}


@pytest.mark.parametrize(
    ("name", "locale"),
    [
        *(pytest.param(*shell.values, "C.UTF-8", marks=shell.marks) for shell in SHELLS),
        pytest.param("bash", "C", marks=SHELLS[0].marks),
    ],
)
def test_no_name_becomes_code(name: str, locale: str, lake: Lake, folder: Path) -> None:
    """Wherever in the word a quote is, and whether it is closed or not."""
    lake.put(f"code/{CODE}")
    lake.put(f"quotes/{QUOTES}")
    with started(name, lake.user, folder, {"LC_ALL": locale}) as shell:
        for form, path in FORMS.items():
            typed = form.replace("NAME", lake.name)
            shell.completed(f"graveler stat {typed}")
            assert shell.argument() == re.sub("[\"']", "", typed) + path
    assert not (folder / "pwn").exists()


BASH_EXPANDS = ('"$HOME" NAME/main/', '"$(: " "NAME/main/')


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_only_plain_names_where_it_expands(lake: Lake, folder: Path) -> None:
    """Within these, the script cannot know what a character means."""
    lake.put("code;x")
    lake.put("plain")
    with started("bash", lake.user, folder) as shell:
        for form in BASH_EXPANDS:
            line = "graveler upload " + form.replace("NAME", lake.name)
            assert shell.completed(f"{line}pl").startswith(f"{line}plain")
            assert shell.completed(f"{line}co") == f"{line}co"


@pytest.mark.parametrize("name", SHELLS[1:])
def test_commands_are_shown_with_their_help(name: str, user: Client, folder: Path) -> None:
    with started(name, user, folder) as shell:
        assert "find the commit that broke data" in shell.offered("graveler b")
