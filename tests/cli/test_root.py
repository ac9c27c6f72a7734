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

from graveler import __version__, errors
from graveler.cli import failures, overview
from graveler.cli import main as cli_main
from graveler.cli.address import UsageMistake
from graveler.cli.command import ClientCommand, OperatorCommand, Tables
from graveler.cli.failures import PartlyDone
from graveler.cli.main import main, root
from graveler.cli.overview import COMMANDS
from graveler.client import objects
from graveler.errors import GravelerError
from graveler.variables import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE
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


def test_the_commands_that_do_not_use_the_table_of_exit_codes_are_named() -> None:
    plain = {" ".join(words) for words, each in ALL.items() if isinstance(each, OperatorCommand)}
    assert plain == {"serve", "gateway", "demo", "events connect"}
    page = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
    for text in (overview.text(), str(cli_main.__doc__), page.read_text()):
        assert re.search(r"serve`?, `?gateway`?, `?demo`? and `?events\s+connect`?", text)


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


# No file of the process may become longer than this.
_NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))"


def entered(
    *arguments: str, before: str = "", after: str = "", **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the console script in a process of its own.  `before`, `after`: statements around it."""
    script = (
        f"{before}\nimport sys; before = set(sys.modules); from graveler.cli.entry import main\n"
        f"code = main()\n{after}\nsys.exit(code)"
    )
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **more)


def test_help_imports_only_its_text(tmp_path: Path) -> None:
    """It starts as fast as Python does: no Click, no command, no client."""
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    variables, names = environment(None) | home, "set(sys.modules) - before"
    for words in (["--help"], ["-h"], ["help"]):
        run = entered(
            *words,
            after=f"print(*({names}), sep='\\n', file=sys.stderr)",
            env=variables,
            stdout=subprocess.PIPE,
        )
        assert run.returncode == 0 and run.stdout.startswith("Usage: graveler [OPTIONS] COMMAND")
        modules = set(run.stderr.splitlines())
        assert not modules & {*HEAVY, "click", "dataclasses", "inspect", "json", "shutil"}
        assert {name for name in modules if name.partition(".")[0] == "graveler"} == {
            "graveler",
            "graveler.cli",
            "graveler.cli.entry",
            "graveler.cli.overview",
            "graveler.variables",
        }


def test_help_is_the_same_with_and_without_click(
    user: Client,
) -> None:
    plain = entered("--help", env=user.environment(), stdout=subprocess.PIPE)
    assert user.run("--help").out == user.run("-q", "-h").out == plain.stdout
    assert user.run().err == plain.stdout
    for option in root().get_params(click.Context(root())):
        hidden = isinstance(option, click.Option) and option.hidden
        assert any(f" {name}" in plain.stdout for name in option.opts) != hidden, option.name
    narrow = user.run("--help", COLUMNS="64").out
    assert max(map(len, narrow.partition("First steps")[0].splitlines())) <= 62
    assert narrow.split() == plain.stdout.split()


def test_help_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    # A process that is measured could not write what it measured either, and would say so.
    unmeasured = {
        name: value for name, value in environment(None).items() if not name.startswith("COVERAGE_")
    }
    with (tmp_path / "full").open("w") as stdout:
        run = entered("--help", before=_NO_ROOM, env=unmeasured, stdout=stdout)
    assert (run.returncode, run.stderr) == (1, "graveler: File too large\n")


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


def test_an_error_is_a_line_and_a_remedy(lake: Lake) -> None:
    result = lake.user.run("branch", "show", f"{lake.name}/nope")
    assert result == (
        3,
        "",
        f"graveler: branch not found: {lake.name}/nope\ntry: graveler branch list {lake.name}\n",
    )


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


def test_tables_suggest_what_was_meant(user: Client) -> None:
    assert "Did you mean 'branch'?" in user.run("branhc").err
    assert isinstance(root(), Tables)


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


def test_an_option_of_other_servers_leads_to_listen(user: Client) -> None:
    for command in ("serve", "gateway", "demo"):
        said = user.run(command, "--port", "8000").err
        assert said == (
            f"graveler: no such option '--port'\ntry: graveler {command} --listen HOST:PORT\n"
        )
    assert "--listen" not in user.run("ls", "--port", "8000").err
    assert re.search("Did you mean .*'--listen'", user.run("serve", "--lisen", "x").err)


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


def test_words_of_git_lead_on(user: Client) -> None:
    assert "Did you mean" not in user.line("clone x").err
    for word, hint in (("checkout", "graveler ls"), ("push", "graveler commit"), ("add", "upload")):
        result = user.line(word)
        assert result.code == 2 and hint in result.err.splitlines()[1], result
    assert user.line("comit").err.splitlines()[0].endswith("Did you mean 'commit'?")


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

WITH_A_BRANCH = "branch create {lake}/NAME v1, and change that"
WHERE_COMMITS_ARE = "log {lake}/BRANCH, or graveler branch list {lake}"


@pytest.mark.parametrize(
    ("line", "missing", "remedy"),
    [
        ("commit {lake}/v1 -m x", "{lake}/v1 is a tag", WITH_A_BRANCH),
        ("reset {lake}/v1 -y", "{lake}/v1 is a tag", WITH_A_BRANCH),
        ("rm {lake}/v1/a", "{lake}/v1 is a tag", WITH_A_BRANCH),
        ("rm -r {lake}/v1/ -y", "{lake}/v1 is a tag", WITH_A_BRANCH),
        ("mv lakefs://{lake}/v1/a lakefs://{lake}/v1/b", "{lake}/v1 is a tag", WITH_A_BRANCH),
        ("diff {lake}/main nosuch", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("diff {lake}/main..nosuch", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("diff {lake}/nosuch main", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("merge-base {lake}/main nosuch", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("merge {lake}/nosuch main", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("merge {lake}/main nosuch", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("revert {lake}/main nosuch -y", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("revert {lake}/main 1a2b3c4d -y", "ref not found: {lake}/1a2b3c4d", WHERE_COMMITS_ARE),
        ("cherry-pick {lake}/1a2b3c4d main", "ref not found: {lake}/1a2b3c4d", WHERE_COMMITS_ARE),
        ("restore {lake}/main nosuch -y", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("branch create {lake}/new nosuch", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("cat {lake}/nosuch/a", "ref not found: {lake}/nosuch", "branch list {lake}"),
        ("branch show nowhere/main", "repository not found: nowhere", "repo list"),
        ("ls nowhere/main/a/", "repository not found: nowhere", "repo list"),
        ("cat {lake}/main/nosuch", "not found: {lake}/main/nosuch", "ls {lake}/main"),
        ("revert {lake}/v1 main -y", "{lake}/v1 is a tag", WITH_A_BRANCH),
        ("merge {lake}/main v1", "{lake}/v1 is a tag", WITH_A_BRANCH),
    ],
)
def test_the_address_that_is_missing_is_named(
    lake: Lake, line: str, missing: str, remedy: str
) -> None:
    lake.commit_of("a")
    lake.user.run("tag", "create", f"{lake.name}/v1", "main")
    result = lake.user.line(line.format(lake=lake.name))
    message, hint = result.err.splitlines()
    assert result.code == 3
    assert message.startswith(f"graveler: {missing.format(lake=lake.name)}")
    assert hint == f"try: graveler {remedy.format(lake=lake.name)}"


def test_a_local_file_that_is_missing_leads_to_no_branch(lake: Lake, tmp_path: Path) -> None:
    for flags in ((), ("-r",)):
        result = lake.user.run("upload", *flags, str(tmp_path / "none"), f"{lake.name}/main/")
        assert result == (3, "", f"graveler: file not found: {tmp_path / 'none'}\n")


@pytest.mark.parametrize(
    "command",
    [
        ("upload", "{file}", "{branch}"),
        ("upload", "{file}", "{branch}/a"),
        ("upload", "-r", "{folder}", "{branch}/"),
        ("cp", "lakefs://{lake}/main/a", "lakefs://{branch}/a"),
        ("import", "local:///x/", "{branch}/x/", "--yes"),
    ],
)
def test_a_branch_that_is_missing_can_be_made_before_it_is_filled(
    lake: Lake, tmp_path: Path, command: tuple[str, ...]
) -> None:
    lake.put("a")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").write_text("x")
    branch, folder = f"{lake.name}/none", tmp_path / "new"
    names = {"lake": lake.name, "branch": branch, "folder": folder, "file": folder / "file"}
    result = lake.user.run(*(word.format_map(names) for word in command))
    assert (result.code, result.err.splitlines()) == (
        3,
        [
            f"graveler: branch not found: {branch}",
            f"try: graveler branch create {branch}, or graveler branch list {lake.name}",
        ],
    )


@pytest.mark.parametrize(
    "command",
    [
        ("upload", "-r", "{folder}", "{lake}/main~9/x"),
        ("cp", "lakefs://{lake}/none/a", "lakefs://{lake}/none/b"),
    ],
)
def test_no_branch_is_proposed_that_cannot_help(
    lake: Lake, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "new").mkdir()
    for name in ("a", "b"):
        (tmp_path / "new" / name).write_text(name)
    names = {"lake": lake.name, "folder": tmp_path / "new"}
    result = lake.user.run(*(word.format_map(names) for word in command))
    message, hint = result.err.splitlines()
    assert result.code == 3 and message.startswith(f"graveler: ref not found: {lake.name}/")
    assert hint == f"try: graveler branch list {lake.name}"


def test_a_command_of_a_group_is_found_by_what_was_missing(user: Client) -> None:
    assert user.run("events", "rules", "list").err.splitlines() == [
        "graveler: missing argument 'REPOSITORY', as in: graveler events rules list lake",
        "try: graveler events rules list --help",
    ]
    assert user.run("events", "rules", "lake").err.splitlines() == [
        "graveler: no such command 'lake': it is one of list, add, remove",
        "try: graveler events rules --help",
    ]


def test_a_wrong_word_leads_to_no_hidden_command(user: Client) -> None:
    for group, hidden in (("repo", "create-bare"), ("branch", "reset")):
        said = user.run(group, "xyz").err.splitlines()[0]
        shown = said.partition(": it is one of ")[2].split(", ")
        assert "list" in shown and hidden not in shown
    assert "create-bare" not in user.run("repo", "create-bar").err


def test_wrong_usage_is_one_line(user: Client) -> None:
    lines = user.run("repo", "lst").err.splitlines()
    assert lines == [
        "graveler: no such command 'lst'. Did you mean 'list'?",
        "try: graveler repo --help",
    ]
    lines = user.run("api").err.splitlines()
    assert len(lines) == 2
    assert (
        lines[0].startswith("graveler: missing argument '{get|")
        and "Choose from: get, " in lines[0]
    )
    assert lines[0].endswith("; as in: graveler api GET repositories")


def test_a_file_that_is_cut_short_is_no_interrupt(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(*_: object, **__: object) -> None:
        raise EOFError("the file ended too early")

    monkeypatch.setattr(objects, "stat", cut_short)
    result = lake.user.run("stat", f"{lake.name}/main/a")
    assert result == (1, "", "graveler: the file ended too early\n")


def test_the_help_of_a_group_has_whole_sentences(user: Client) -> None:
    shown = user.run("local", "--help").out
    assert " ".join(shown.split()).count("on the branch, since they were in step.") == 1


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


@pytest.mark.parametrize("command", ["upload", "cp"])
def test_a_tag_cannot_be_written(lake: Lake, tmp_path: Path, command: str) -> None:
    lake.commit_of("a")
    lake.user.run("tag", "create", f"{lake.name}/v1", "main")
    (tmp_path / "a").write_text("a")
    source = str(tmp_path / "a") if command == "upload" else f"lakefs://{lake.name}/main/a"
    result = lake.user.run(command, source, f"lakefs://{lake.name}/v1/x")
    assert result.code == 3 and f"{lake.name}/v1 is a tag, and only a branch" in result.err
    assert result.err.endswith(f"\ntry: graveler {WITH_A_BRANCH.format(lake=lake.name)}\n")


def test_a_folder_cannot_be_uploaded_to_a_tag_or_a_commit(lake: Lake, tmp_path: Path) -> None:
    commit = lake.commit_of("a")
    lake.user.run("tag", "create", f"{lake.name}/v1", "main")
    for name in ("b", "c"):
        (tmp_path / name).write_text(name)
    for ref, kind in (("v1", "tag"), (commit, "commit")):
        result = lake.user.run("upload", "-r", str(tmp_path), f"{lake.name}/{ref}/x/")
        message, hint = result.err.splitlines()[-2:]
        assert result.code == 3
        assert message == (
            f"graveler: {lake.name}/{ref} is a {kind}, and only a branch can be changed"
        )
        assert hint.startswith(f"try: graveler branch create {lake.name}/NAME {ref}")
