"""`graveler actions`: runs of hooks and their logs, and whether an action file is valid."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from graveler.cli.support.command import client, group, run_command
from graveler.cli.support.failures import of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, count, ignored
from graveler.cli.support.output import Styles, field, plain, plain_lines, plural
from graveler.core import limits
from graveler.core.errors import GravelerError, UsageMistake

_RUNS: Final = (
    field("run_id", title="RUN"),
    field("status"),
    field("start_time", "time", "STARTED"),
    field("event_type", title="EVENT"),
    field("branch"),
    field("commit_id", "id", "COMMIT"),
)
_HOOKS: Final = (
    field("hook_run_id", title="HOOK RUN"),
    field("status"),
    field("start_time", "time", "STARTED"),
    field("end_time", "time", "ENDED"),
    field("action"),
    field("hook_id", title="HOOK"),
)
_STYLES: Final[Styles] = ("status", {"failed": {"fg": "red"}, "completed": {"fg": "green"}})
_LISTED_BY: Final = "graveler actions list"


def warn_if_off(invocation: Invocation, repository: str) -> None:
    """Say that no action file has an effect, if that is so and somebody reads it.

    Cost: one request then.
    """
    if not invocation.output.prints_notes:
        return
    with suppress(GravelerError):  # the caller may perhaps not list runs
        if invocation.repo(repository).hooks_are_off():
            invocation.warn_of_no_hooks()


@group("actions")
def actions() -> None:
    """See the runs of hooks, and check action files."""


@client(
    "list",
    group=actions,
    examples=(
        "graveler actions list lake",
        "graveler actions list lake/main -n 5",
        "graveler actions list lake --commit 1a2b3c4d --json",
    ),
)
@address_argument("address", metavar="REPOSITORY[/BRANCH]")
@click.option("--branch", default="", metavar="NAME", help="only runs of this branch")
@click.option("--commit", default="", metavar="ID", help="only runs of this commit")
@click.option("--after", default="", metavar="RUN", help="only runs listed after it")
@count
def list_runs(
    invocation: Invocation, address: str, branch: str, commit: str, after: str, amount: int | None
) -> int:
    """List the runs of a repository, a branch or a commit, the newest first."""
    place = invocation.address(address)
    branch = branch or place.ref
    if place.path or (branch and commit):
        raise UsageMistake("give a repository with one of BRANCH and --commit")
    if commit:  # the operation knows whole ids only
        commit = invocation.repo(place.repository).ref(commit).pin().id
    known = invocation.repo(place.repository)
    rows = known.runs(branch, commit=commit, after=after, limit=amount)
    if not invocation.output.items(_RUNS, rows, _STYLES):
        invocation.output.note("no runs")
        warn_if_off(invocation, place.repository)
    return 0


@client("show", group=actions, examples=("graveler actions show lake 5m1jd8bq7s8c73bsq2gg",))
@address_argument("repository")
@click.argument("run")
@ignored(takes=("--amount", "--after"))
def show(invocation: Invocation, repository: str, run: str) -> int:
    """Show a run with its hooks.  Hooks that were skipped are not listed."""
    name = invocation.item_of(repository, run, _LISTED_BY)
    known, output = invocation.repo(name), invocation.output
    record = known.run(run)
    hooks = [hook.answer for hook in known.hooks_of(run)]
    if output.form != "human":
        output.record({**record.answer, "graveler": {"hooks": hooks}}, ())
        return 0
    output.pairs(record, _RUNS)
    print()
    output.items(_HOOKS, hooks, _STYLES, none="no hook ran")
    return 0


@client(
    "log",
    group=actions,
    examples=(
        "graveler actions log lake 5m1jd8bq7s8c73bsq2gg",
        "graveler actions log lake 5m1jd8bq7s8c73bsq2gg --hook only_parquet",
    ),
)
@address_argument("repository")
@click.argument("run")
@click.option("--hook", default="", metavar="ID", help="the log of this hook alone")
def log(invocation: Invocation, repository: str, run: str, hook: str) -> int:
    """Print the logs of the hooks of a run: what was sent, and what was answered.

    HOOK is the id of a hook in its action file, or the id of its run.
    """
    name = invocation.item_of(repository, run, _LISTED_BY)
    known = invocation.repo(name)
    shown = [each for each in known.hooks_of(run) if not hook or hook in (each.hook, each.id)]
    if hook and not shown:
        see = of_server(invocation, f"graveler actions show {name} {run}")
        raise UsageMistake(f"the run has no hook {hook!r}: see {see}")
    logs = ({**each.answer, "log": known.hook_log(each)} for each in shown)
    if invocation.output.form != "human":
        invocation.output.items((), logs)
        return 0
    for entry in logs:
        title = f"{entry['action']} / {entry['hook_id']}: {entry['status']}"
        print(invocation.output.style(plain(f"== {title}"), bold=True))
        text = str(entry["log"])
        print(plain_lines(text) if sys.stdout.isatty() else text)
    if not shown:
        invocation.output.note("no hook ran")
    return 0


@client(
    "validate",
    group=actions,
    examples=(
        "graveler actions validate _lakefs_actions/formats.yaml",
        "graveler actions validate - <formats.yaml",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False))
def validate(invocation: Invocation, file: str) -> int:
    """Check an action file by the rules of the server, without a server.

    FILE - is the standard input.  An invalid file ends with 1, and the message names the field.
    """
    from graveler.hooks.actions import parse

    with click.open_file(file, "rb") as opened:
        text = opened.read(limits.action_file_length_bytes_max + 1)
    action = parse("stdin" if file == "-" else Path(file).name, text)
    record = {
        "name": action.name,
        "on": {event: list(patterns) for event, patterns in action.on.items()},
        "hooks": [hook.id for hook in action.hooks],
    }
    events = ", ".join(action.on)
    line = f"valid: {plain(action.name)}: {plural(len(action.hooks), 'hook')} on {events}"
    invocation.output.record({"graveler": record}, [line])
    return 0


# ---- lakectl's names -----------------------------------------------------------------------------


@group("runs", parent=actions, hidden=True, commands={"list": list_runs, "describe": show})
def runs() -> None:
    """Runs, by the names of lakectl."""


@client("cat-hook-output", examples=("graveler cat-hook-output lakefs://lake RUN HOOK_RUN",))
@address_argument("repository")
@click.argument("run")
@click.argument("hook")
def cat_hook_output(invocation: Invocation, repository: str, run: str, hook: str) -> int:
    """`graveler actions log REPOSITORY RUN --hook HOOK`, by the name of lakectl."""
    return run_command(log, repository=repository, run=run, hook=hook)
