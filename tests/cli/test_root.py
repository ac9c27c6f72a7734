"""The root: help, lazy loading, exit codes and the shape of errors."""

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from graveler import __version__
from graveler.cli.commands import COMMANDS
from graveler.cli.main import main, root
from graveler.cli.support import failures
from graveler.cli.support.command import ClientCommand, OperatorCommand
from graveler.cli.support.failures import PartlyDone
from graveler.core import errors
from graveler.core.errors import GravelerError, UsageMistake
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE
from graveler.lake import objects
from tests.api.serving import ADMINISTRATOR
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.cli.service import environment
from tests.client.scripted import Said, scripted
from tests.waiting import PATIENCE_SECONDS

# What no client command may load before it needs it.
HEAVY = (
    *("fastapi", "msgspec", "uvicorn", "rocksdict", "lakefs", "jwt", "google.protobuf", "boto3"),
    *("yaml", "rich", "urllib.request", "tomllib", "graveler.engine", "graveler.kv"),
    *("graveler.api", "graveler.block", "graveler.refs", "graveler.committed", "asyncio"),
)


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, hidden ones too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


ALL = dict(commands(root()))


def test_the_commands_that_do_not_use_the_table_of_exit_codes_are_named(user: Client) -> None:
    plain = {" ".join(words) for words, each in ALL.items() if isinstance(each, OperatorCommand)}
    assert plain == {"serve", "gateway", "demo", "events connect", "storage cors"}
    page = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
    for text in (user.run("--help").out, page.read_text()):
        assert re.search(
            r"serve`?, `?gateway`?, `?demo`?, `?events\s+connect`?\s+and\s+`?storage\s+cors`?", text
        )


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_help_with_examples(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage: graveler") and (ALL[words].help or "").strip()
    assert "Examples:\n" in text
    if isinstance(ALL[words], ClientCommand):
        assert "--json" in text


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_examples_are_possible_command_lines(words: tuple[str, ...]) -> None:
    """Each example can be parsed; the words before and after a shell's operators are left out."""
    for example in getattr(ALL[words], "examples", ()):
        line = example.partition("  #")[0].rpartition("| ")[2].partition(" >")[0].partition(" <")[0]
        inner = line.partition("$(")[2].partition(")")[0] or line
        arguments = shlex.split(inner)[1:]
        group = root()
        with group.make_context("graveler", list(arguments)) as context:
            command: click.Command = group
            rest, parent = arguments, context
            while isinstance(command, click.Group):
                name, child, rest = command.resolve_command(parent, rest)
                assert child is not None, example
                command = child
                if isinstance(command, click.Group):
                    parent = click.Context(command, parent=parent)
            command.make_context(name, list(rest), parent=parent)


def test_the_table_and_the_modules_agree() -> None:
    group = root()
    for name, entry in COMMANDS.items():
        command = group.get_command(click.Context(group), name)
        assert command is not None and entry.help
        assert not entry.section or command.name == name


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert main(["-h"]) == 0
    assert main(["--version"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("Usage: graveler") and out.count("Usage: graveler") == 2
    assert out.splitlines()[-1].startswith("graveler 0.")


def entered(
    *arguments: str, before: str = "", after: str = "", **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the console script in a process of its own.  `before`, `after`: statements around it."""
    run = "import sys; from graveler.cli.entry import main\ncode = main()"
    script = f"{before}\n{run}\n{after}\nsys.exit(code)"
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **more)


def test_the_version_needs_no_click() -> None:
    shown = entered(
        "--version",
        after="print('click' in sys.modules, file=sys.stderr)",
        env=environment(None),
        stdout=subprocess.PIPE,
    )
    assert shown.stdout == f"graveler {__version__}\n" and shown.stderr == "False\n"


def test_help_that_cannot_be_written_is_reported() -> None:
    with open("/dev/full", "w") as stdout:
        run = entered("--help", env=environment(None), stdout=stdout)
    assert (run.returncode, run.stderr) == (1, "graveler: No space left on device\n")


def test_a_client_command_loads_little(lake: Lake) -> None:
    """The profile of a test is in TOML; variables need no file at all."""
    url = lake.live.client.url
    script = (
        "import sys; before = set(sys.modules); from graveler.cli.main import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "print(*(set(sys.modules) - before), sep='\\n', file=sys.stderr)"
    )
    keys = {
        URL_VARIABLE: url,
        KEY_VARIABLE: ADMINISTRATOR.access_key_id,
        SECRET_VARIABLE: ADMINISTRATOR.secret_access_key,
    }
    run = subprocess.run(
        [sys.executable, "-c", script, "branch", "list", lake.name],
        env=lake.user.environment() | keys,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("main\t")
    modules = set(run.stderr.splitlines())
    assert "http.client" in modules
    assert modules & set(HEAVY) == set()


def test_python_runs_the_package_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "graveler", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("graveler ")


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Invalid("x"), 1),
        (errors.NoChanges("x"), 1),
        (errors.Internal("x"), 1),
        (errors.Corrupt("x"), 1),
        (errors.Unsupported("x"), 1),
        (UsageMistake("x"), 2),
        (errors.NotFound("x"), 3),
        (errors.Gone("x"), 3),
        (errors.Unauthenticated("x"), 4),
        (errors.Refused("x"), 4),
        (errors.Conflict("x"), 5),
        (errors.AlreadyExists("x"), 5),
        (errors.PreconditionFailed("x"), 5),
        (errors.MergeConflict("x"), 5),
        (errors.HookFailed("x"), 5),
        (errors.Unavailable("x"), 6),
        (errors.Throttled("x"), 6),
        (errors.Contended("x"), 6),
        (errors.StorageFull("x"), 6),
        (errors.OutcomeUnknown("x"), 7),
        (PartlyDone("x"), 8),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, GravelerError) else str(value),
)
def test_exit_codes(error: GravelerError, code: int) -> None:
    assert failures.exit_code(error) == code


def test_an_error_can_be_read_by_programs(lake: Lake) -> None:
    for arguments in (("--json", "branch", "show", "nope/nope"), ("ls", "nope/main", "--jsonl")):
        result = lake.user.run(*arguments)
        error = json.loads(result.err)["error"]
        assert (result.code, result.out) == (3, "")
        assert set(error) == {"code", "message", "hint", "status", "request_id"}
        assert (error["code"], error["status"]) == ("not_found", 404) and error["request_id"]


def test_wrong_usage_can_be_read_by_programs(user: Client) -> None:
    result = user.run("--json", "branch", "show")
    error = json.loads(result.err)["error"]
    assert result.code == 2 and error["code"] == "usage"
    assert error["hint"] == "graveler branch show --help"


@pytest.mark.parametrize("word", ["", "//", "lake//x", "s3://bucket/key", ":main"])
def test_words_that_are_no_address(lake: Lake, word: str) -> None:
    result = lake.user.run("ls", word)
    assert result.code == 2 and result.err.startswith("graveler: ")


def test_wrong_credentials(lake: Lake) -> None:
    key = ("--access-key-id", "AKIAOTHER", "--secret-stdin")
    result = lake.user.run("whoami", *key, input=b"not-the-secret-of-anybody-but-long\n")
    assert result.code == 4 and "try: graveler login" in result.err


def test_requests_are_shown_without_secrets(lake: Lake) -> None:
    lake.put("a", b"content")
    result = lake.user.run("-v", "stat", f"{lake.name}/main/a")
    assert result.err.startswith(f"> GET {lake.live.client.url}/api/v1/repositories/{lake.name}/")
    assert " 200 " in result.err and "secret" not in result.err


@pytest.mark.parametrize(
    ("words", "extras"),
    [
        ((), "cli"),
        (("ls", "lake"), "cli"),
        (("serve", "--store", "demo"), "cli,server"),
        (("-q", "demo"), "cli,demo,server"),
        (("gateway",), "cli,gateway"),
    ],
)
def test_a_missing_click_is_named_with_all_that_the_command_needs(
    words: tuple[str, ...], extras: str
) -> None:
    code = (
        "import sys; sys.modules['click'] = None; "
        "from graveler.cli.entry import main; sys.exit(main())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.splitlines() == [
        f"graveler: package click is not installed: pip install 'graveler[{extras}]'"
    ]
    shown = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stdout) == (0, f"graveler {__version__}\n")


def test_an_interrupt_while_modules_are_imported_is_a_line() -> None:
    code = (
        "import os, signal, sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from graveler.cli.entry import main; sys.exit(main())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "graveler: interrupted\n")


def test_an_interrupt_during_a_write_says_that_its_outcome_is_unknown(user: Client) -> None:
    """The server never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        user.know(f"http://127.0.0.1:{listener.getsockname()[1]}")
        shown = terminal(user, "repo", "create", "lake", "local://lake", "--json")
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            assert shown.interrupt() == 130
    failure = json.loads(shown.text.splitlines()[-1])["error"]
    assert failure["code"] == "interrupted"
    assert "look whether it was done" in failure["message"]


# ---- what somebody types who has not read the manual ---------------------------------------------


def test_help_names_the_exit_codes_and_what_the_first_steps_need(user: Client) -> None:
    text = user.run("--help").out
    codes = text.partition("Exit codes")[2]
    for code in (*failures._CODES, ("", failures.DONE), ("", failures.USAGE)):
        assert f" {code[1]} " in codes
    assert f" {failures.FAILED} " in codes and f" {failures.INTERRUPTED} " in codes
    needed = "Every command needs pip install 'graveler[cli]', and serve 'graveler[cli,server]'."
    assert needed in text
    assert text.index("lakectl is the client of lakeFS") < text.index("--config")


def test_a_second_repository_of_a_name_and_a_wrong_name(lake: Lake) -> None:
    taken = lake.user.run("repo", "create", lake.name)
    assert (taken.code, taken.err) == (
        5,
        f"graveler: repository exists already: {lake.name}\ntry: graveler repo show {lake.name}\n",
    )
    wrong = lake.user.run("repo", "create", "Bad_Name")
    assert wrong.code == 2 and "it must be 3 to 63 characters of a-z, 0-9 and '-'" in wrong.err
    known = lake.user.run("repo", "create", "whole-name", "ftp://elsewhere")
    assert known.code == 2 and "repository name" not in known.err


def test_a_branch_without_its_repository_is_told_how_to_write_it(lake: Lake) -> None:
    without = lake.user.run("branch", "create", "dev2")
    assert without.code == 2 and "or REPOSITORY/dev2" in without.err
    lake.user.run("config", "set", "repository", lake.name)
    said = lake.user.run("branch", "create", "dev2")
    assert said.code == 2 and f"or :dev2 for {lake.name}/dev2" in said.err
    assert lake.user.run("branch", "create", ":dev2").code == 0


def test_a_deletion_says_that_it_is_not_committed(lake: Lake) -> None:
    for path in ("a", "b/1", "b/2"):
        lake.put(path)
    until = f"uncommitted until `graveler commit {lake.name}/main`\n"
    one = lake.user.run("rm", f"{lake.name}/main/a")
    assert (one.out, one.err) == ("", f"deleted {lake.name}/main/a: {until}")
    quiet = lake.user.run("rm", "-q", f"{lake.name}/main/b/1")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    many = lake.user.run("rm", "-r", "--yes", f"{lake.name}/main/b/")
    assert many.err == f"deleted 1 object: {until}"


def test_a_missing_ref_is_named_with_an_example(user: Client, tmp_path: Path) -> None:
    user.patch.chdir(tmp_path)
    for line in ("log", "show", "commit", "diff", "ls", "status"):
        result = user.line(line)
        assert result.code == 2 and "as in lake/main; only in a linked folder" in result.err, line
    assert "For example dev/main, or REPOSITORY/dev" in user.line("merge dev main").err


def test_a_repository_alone_is_its_default_branch(lake: Lake) -> None:
    lake.put("a/b")
    assert lake.user.line(f"ls {lake.name}").out == "\t\ta/\n"
    assert lake.user.line("ls no-such-lake").code == 3


def test_a_namespace_may_be_left_out_if_the_server_proposes_one(lake: Lake) -> None:
    user, name = lake.user, f"{lake.name}-own"
    created = json.loads(user.line(f"repo create {name} --json").out)
    assert created["storage_namespace"] == f"local://{name}"


def test_a_server_without_a_proposal_wants_a_namespace(user: Client) -> None:
    storage = {"default_namespace_prefix": "", "blockstore_namespace_example": "s3://example/"}
    with scripted([Said(200, json.dumps({"storage_config": storage}).encode())]) as server:
        user.know(server.url)
        result = user.line("repo create lake")
    assert result.code == 2 and "try: graveler repo create lake s3://example/lake" in result.err


# ---- what is missing -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "missing", "remedy"),
    [
        ("commit {lake}/none -m x", "branch not found: {lake}/none", "branch list {lake}"),
        (
            "merge {lake}/main none",
            "branch not found: {lake}/main, {lake}/none",
            "branch list {lake}",
        ),
        ("cat {lake}/main/none", "not found: {lake}/main/none", "ls {lake}/main"),
        ("ls nowhere/main/a/", "repository not found: nowhere/main/a/", "repo list"),
        (
            "upload {file} {lake}/none/a",
            "branch 'none' not found: {lake}/none/a",
            "branch list {lake}",
        ),
    ],
)
def test_what_is_missing_is_named(
    lake: Lake, tmp_path: Path, line: str, missing: str, remedy: str
) -> None:
    (tmp_path / "file").write_text("x")
    names = {"lake": lake.name, "file": tmp_path / "file"}
    result = lake.user.line(line.format_map(names))
    assert (result.code, result.err.splitlines()) == (
        3,
        [f"graveler: {missing.format_map(names)}", f"try: graveler {remedy.format_map(names)}"],
    )


def test_wrong_usage_is_a_line_and_the_help(user: Client) -> None:
    for line, reason, help in (
        ("lg", "no such command 'lg'. Did you mean 'log'?", "--help"),
        ("repo lst", "no such command 'lst'. Did you mean 'list'?", "repo --help"),
        ("events rules list", "missing argument 'REPOSITORY'", "events rules list --help"),
    ):
        assert user.line(line) == (2, "", f"graveler: {reason}\ntry: graveler {help}\n")


def test_a_local_file_that_is_missing_leads_to_no_branch(lake: Lake, tmp_path: Path) -> None:
    for flags in ((), ("-r",)):
        result = lake.user.run("upload", *flags, str(tmp_path / "none"), f"{lake.name}/main/")
        assert result == (3, "", f"graveler: file not found: {tmp_path / 'none'}\n")


def test_a_file_that_is_cut_short_is_no_interrupt(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(*_: object, **__: object) -> None:
        raise EOFError("the file ended too early")

    monkeypatch.setattr(objects, "stat", cut_short)
    result = lake.user.run("stat", f"{lake.name}/main/a")
    assert result == (1, "", "graveler: the file ended too early\n")


def test_what_a_profile_lacks_is_said_once(user: Client) -> None:
    url = "http://127.0.0.1:1"
    assert user.run("ls", "lake/main", "--server", url).err.splitlines() == [
        f"graveler: no credentials for {url}",
        f"try: graveler login {url}, or set {KEY_VARIABLE} and {SECRET_VARIABLE}",
    ]
    assert user.run("ls", "lake/main", **{URL_VARIABLE: url}).err.splitlines() == [
        f"graveler: no credentials for {url}",
        f"try: set {KEY_VARIABLE} and {SECRET_VARIABLE}, too",
    ]
    assert user.run("ls", "lake/main", "--profile", "none").err.splitlines() == [
        "graveler: profile not found: none",
        "try: graveler config list",
    ]
