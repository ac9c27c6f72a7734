"""The arguments of `graveler verify` and `graveler credentials`.

Slow modules are imported where they are used.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli.support.command import TendingCommand, client, group
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import needed_store, store_option, yes
from graveler.cli.support.serve_options import FOLDER
from graveler.core.errors import Invalid

_NO_CHECK: Final = "no operation of the API checks a store"
_NO_RESET: Final = "no operation of the API makes new credentials without the old ones"
_NO_ROTATION: Final = "no operation of the API replaces the keys of a store"


@client(
    "verify",
    kind=TendingCommand,
    examples=(
        "graveler verify --store DIR",
        "graveler verify --store DIR --objects --json",
        "graveler verify --store DIR --content",
    ),
)
@store_option
@click.option("--objects", is_flag=True, help="also check that every object exists, with its size")
@click.option("--content", is_flag=True, help="also read every object, and compare its checksum")
@click.option(
    "--after",
    default="",
    metavar="POSITION",
    help="leave out the objects up to this position, which the progress of a check has shown",
)
@click.option(
    "--import-root",
    "import_roots",
    type=FOLDER,
    multiple=True,
    metavar="DIR",
    help="a folder with imported objects (repeatable; without it: no imports)",
)
def verify(
    invocation: Invocation,
    store: Path | None,
    import_roots: tuple[Path, ...],
    objects: bool,
    content: bool,
    after: str,
) -> int:
    """Check everything reachable in a store that is not being served.

    Checks every reachable commit, metarange and range.  The exit code is 1 if anything is damaged.
    A server cannot do it: stop the service first.
    """
    remedy = "stop the service, then on its machine: graveler verify --store DIR"
    folder = needed_store(invocation, store, _NO_CHECK, remedy)
    from graveler.cli.support import verify as verification

    return verification.verify(
        *(invocation.output, folder, import_roots), objects=objects, content=content, after=after
    )


@group("credentials")
def credentials() -> None:
    """Manage the administrator's credentials."""


def _stack(function: Callable[..., Any]) -> Callable[..., Any]:
    of_stack = click.option(
        "--stack",
        default="",
        metavar="NAME",
        help="a deployment on AWS; credentials and region come from the AWS configuration",
    )
    of_table = click.option(
        "--table",
        default="",
        metavar="NAME",
        help="the parameter ExistingTable of the stack, if it is set",
    )
    return of_stack(of_table(store_option(function)))


def _check_one(store: Path | None, stack: str, table: str) -> None:
    if store is not None and stack:
        message = "--store and --stack exclude each other"
        raise click.UsageError(message, click.get_current_context())
    if table and not stack:
        raise Invalid("--table needs a stack: leave it out")


@client(
    "reset",
    group=credentials,
    kind=TendingCommand,
    examples=(
        "graveler credentials reset --store DIR --save",
        "graveler credentials reset --stack graveler",
        "graveler credentials reset --store DIR --yes     # for scripts",
    ),
)
@_stack
@click.option(
    "--save",
    is_flag=True,
    help="also write them to the file `credentials` in the store (mode 0600)",
)
@yes
def reset(
    invocation: Invocation, store: Path | None, stack: str, table: str, save: bool, yes: bool
) -> int:
    """Create new credentials; the old ones and all sessions end.

    For the administrator of a store that is not being served, or of a stack on AWS.  They are
    printed once.  On a server, `graveler user key create` and `user key delete` replace a key that
    still works.
    """
    _check_one(store, stack, table)
    from graveler.cli.support import administrator as accounts

    def confirm() -> None:
        of = f"the stack {stack}" if stack else str(folder)
        ends = "Its present keys and all its sessions end now"
        invocation.confirm(f"Make new credentials for the administrator of {of}?  {ends}.", yes=yes)

    if not stack:
        remedy = "graveler user key create USER, then graveler user key delete USER OLD_KEY"
        folder = needed_store(invocation, store, _NO_RESET, remedy)
        return accounts.reset(invocation.output, folder, confirm, save=save)
    if save:
        raise Invalid("--save needs the folder of a store, and a stack has none: leave --save out")
    return accounts.reset_stack(invocation.output, stack, table or stack, confirm)


@client(
    "rotate",
    group=credentials,
    kind=TendingCommand,
    examples=(
        "graveler credentials rotate --store DIR --store-key",
        "graveler credentials rotate --stack graveler --end-sessions",
    ),
)
@_stack
@click.option(
    "--kms-key",
    default="",
    metavar="ARN",
    help="the parameter KeysKmsKeyArn of the stack, if it is set",
)
@click.option(
    "--store-key",
    is_flag=True,
    help="also replace the file `key` of the store, from which all other keys are derived",
)
@click.option(
    "--end-sessions", is_flag=True, help="end all sessions: their old keys verify no more"
)
@yes
def rotate(
    invocation: Invocation,
    store: Path | None,
    stack: str,
    table: str,
    kms_key: str,
    store_key: bool,
    end_sessions: bool,
    yes: bool,
) -> int:
    """Replace the keys that sign sessions and encrypt secrets.

    Encrypts all secrets anew.  Access keys go on, and sessions too; --end-sessions asks.  For a
    store that is not being served, or a stack on AWS.
    """
    _check_one(store, stack, table)
    from graveler.cli.support import administrator as accounts

    if stack and store_key:
        raise Invalid("--store-key needs --store: the secret of a stack is in Secrets Manager")
    if stack:
        _confirm_end(invocation, f"the stack {stack}", end_sessions=end_sessions, yes=yes)
        return accounts.rotate_stack(
            invocation.output, stack, table or stack, kms_key, ends_sessions=end_sessions
        )
    if kms_key:
        raise Invalid("--kms-key needs a stack: leave it out")
    remedy = "stop the service, then on its machine: graveler credentials rotate --store DIR"
    folder = needed_store(invocation, store, _NO_ROTATION, remedy)
    _confirm_end(invocation, str(folder), end_sessions=end_sessions, yes=yes)
    return accounts.rotate(
        invocation.output, folder, ends_sessions=end_sessions, store_key=store_key
    )


def _confirm_end(invocation: Invocation, of: str, *, end_sessions: bool, yes: bool) -> None:
    if end_sessions:
        invocation.confirm(f"End the sessions of all users of {of}?", yes=yes)
