"""The console script `graveler`: finds the command, runs it, and reports a failure in one line.

Exit codes are in support/failures.py.  Operator commands, which are serve, gateway, demo,
`events connect` and `storage cors`, end with 1 for every failure but wrong usage.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.exceptions import Abort, ClickException

from graveler import __version__
from graveler.cli.commands import COMMANDS, extras_of
from graveler.cli.support import failures
from graveler.cli.support.command import COMPLETE, Tables
from graveler.cli.support.invocation import Declined, Invocation, close
from graveler.cli.support.options import shared_options
from graveler.cli.support.output import guard
from graveler.core.errors import GravelerError
from graveler.core.settings import environment

# The extras of the package that bring what some commands import.
_EXTRAS: Final = {
    **dict.fromkeys(("boto3", "botocore", "pynamodb"), "aws"),
    **dict.fromkeys(("cryptography", "jwt", "msgspec", "uvicorn", "yaml"), "server"),
    **dict.fromkeys(("airportsdata", "lakefs"), "demo"),
}
_HELP: Final = """Git for data lakes: branches, commits and merges over an object store.

Addresses are REPOSITORY, REPOSITORY/REF or REPOSITORY/REF/PATH, for example
lake/main/sales/2026.csv.  A REF is a branch, a tag or a commit id; main~2 is two commits before
main, and main^2 is the second parent of a merge.

Any server with the API of lakeFS is served.  lakectl is the client of lakeFS: its file and
variables are read, and lakefs:// may stand before addresses, as it does there.  In cp it must,
because a side without it is a file.

The options stand before or after a client command.
"""
_EPILOG: Final = """`graveler COMMAND --help` shows options and examples.

\b
First steps:
  # Every command needs pip install 'graveler[cli]', and serve 'graveler[cli,server]'.
  graveler serve --store DIR                     # in another terminal; prints a token
  graveler login http://127.0.0.1:8000 --setup   # or: graveler login URL, of a known server
  graveler repo create lake                      # on S3: repo create lake s3://BUCKET/lake
  graveler branch create lake/dev
  graveler upload FILE lake/dev/
  graveler commit lake/dev -m "Add a file"
  graveler merge lake/dev main

\b
Exit codes (serve, gateway, demo, events connect and storage cors fail with 1; wrong usage: 2):
  0 done; 1 failed, or the answer is no; 2 wrong usage; 3 does not exist; 4 not allowed;
  5 conflict; 6 not possible now, may be repeated; 7 the outcome of a write is unknown;
  8 some of several failed; 130 interrupted
"""


def root() -> Tables:
    """The root of all commands."""
    version = click.version_option(
        __version__, message="graveler %(version)s", help="print the version"
    )
    command = Tables(
        "graveler",
        params=shared_options(),
        help=_HELP,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    return version(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    invocation = Invocation()
    instruction = environment().get(COMPLETE)
    if instruction and argv is None:
        from click.shell_completion import shell_complete

        return shell_complete(root(), {"obj": invocation}, "graveler", COMPLETE, instruction)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # a name need not be one that it can encode
            sys.stdout.reconfigure(errors="backslashreplace")
        guard()
        code = _run(list(sys.argv[1:] if argv is None else argv), invocation)
        sys.stdout.flush()
        return code
    except (OSError, UnicodeError, EOFError) as error:
        return _refused(error, invocation)
    finally:
        close(invocation)
        _drop_unwritten_errors()


def _refused(error: OSError | UnicodeError | EOFError, invocation: Invocation) -> int:
    """Report what the system refuses, or a file that is cut short, and return the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader of the output has closed it
        _drop_output()
        return failures.FAILED
    code = failures.report_system(error, invocation)
    try:
        sys.stdout.flush()
    except OSError:  # what is left cannot be written; Python would try again at the end
        _drop_output()
    return code


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _drop_unwritten_errors() -> None:
    """Python would try again at the end, on a full device in vain, and exit with 120."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _run(argv: list[str], invocation: Invocation) -> int:
    command = root()
    if argv[:1] == ["help"]:  # as git and lakectl have it
        argv = [*argv[1:], "--help"]
    try:
        with command.make_context("graveler", argv, obj=invocation) as context:
            return int(command.invoke(context) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except ClickException as error:
        return failures.report_usage(error, invocation)
    except GravelerError as error:
        return failures.report(error, invocation)
    except Declined:
        return failures.report_plain("declined", "nothing was changed", invocation)
    except ModuleNotFoundError as error:
        return _missing(error, argv)
    except (KeyboardInterrupt, Abort) as interrupt:
        return failures.report_interrupt(str(interrupt), invocation)


def _missing(error: ModuleNotFoundError, argv: list[str]) -> int:
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    sys.stdout.flush()
    command = next((word for word in argv if word in COMMANDS), "")
    needed = {_EXTRAS[package], *extras_of(argv).split(",")}
    print(
        f"{f'graveler {command}'.strip()}: package {package} is not installed: "
        f"pip install 'graveler[{','.join(sorted(needed))}]'",
        file=sys.stderr,
    )
    return failures.FAILED
