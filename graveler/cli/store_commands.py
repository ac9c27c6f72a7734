"""The arguments of `graveler verify` and `graveler credentials`.

`--help` imports this module, so slow modules are imported where they are used.
"""

from collections.abc import Callable
from pathlib import Path

import click

from graveler.cli.command import group, operator
from graveler.cli.options import FOLDER, CredentialsOptions, VerifyOptions
from graveler.errors import Invalid


@operator("verify")
@click.option("--store", type=FOLDER, required=True, metavar="DIR", help="the folder of the store")
@click.option("--objects", is_flag=True, help="also check that every object exists, with its size")
@click.option(
    "--import-root",
    "import_roots",
    type=FOLDER,
    multiple=True,
    metavar="DIR",
    help="a folder with imported objects (repeatable; without it: no imports)",
)
def verify(store: Path, objects: bool, import_roots: tuple[Path, ...]) -> int:
    """Check everything reachable in a store that is not being served.

    Checks every reachable commit, metarange and range.  The exit code is 1 if anything is damaged.
    """
    from graveler.cli import verify as verification

    return verification.verify(VerifyOptions(store, objects, import_roots))


@group("credentials")
def credentials() -> None:
    """Manage the administrator's credentials."""


def _whose(function: Callable[..., int]) -> Callable[..., int]:
    function = click.option(
        "--stack",
        default="",
        metavar="NAME",
        help="a deployment on AWS; credentials and region come from the AWS configuration",
    )(function)
    return click.option("--store", type=FOLDER, metavar="DIR", help="the folder of the store")(
        function
    )


def _check_whose(store: Path | None, stack: str) -> None:
    if (store is None) == (not stack):
        raise click.UsageError("one of --store and --stack is needed")


@operator("reset", group=credentials)
@_whose
@click.option(
    "--save",
    is_flag=True,
    help="also write them to the file `credentials` in the store (mode 0600)",
)
def reset(store: Path | None, stack: str, save: bool) -> int:
    """Create new credentials; the old ones and all sessions end.

    For the administrator of a store that is not being served, or of a stack on AWS.  They are
    printed once.
    """
    from graveler.cli import credentials as accounts

    _check_whose(store, stack)
    if store is not None:
        return accounts.reset(CredentialsOptions(store, save))
    if save:
        raise Invalid("--save needs the folder of a store, and a stack has none: leave --save out")
    return accounts.reset_stack(stack)


@operator("rotate", group=credentials)
@_whose
@click.option(
    "--kms-key",
    default="",
    metavar="ARN",
    help="the parameter KeysKmsKeyArn of the stack, if it is set",
)
@click.option(
    "--end-sessions", is_flag=True, help="end all sessions: their old keys verify no more"
)
def rotate(store: Path | None, stack: str, kms_key: str, end_sessions: bool) -> int:
    """Replace the keys that sign sessions and encrypt secrets.

    Encrypts all secrets anew.  Sessions and access keys go on.
    """
    from graveler.cli import credentials as accounts

    _check_whose(store, stack)
    if store is None:
        return accounts.rotate_stack(stack, kms_key, ends_sessions=end_sessions)
    if kms_key:
        raise Invalid("--kms-key needs a stack: leave it out")
    return accounts.rotate(store, ends_sessions=end_sessions)
