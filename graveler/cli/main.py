"""The console script `graveler`: finds the command, runs it, and reports a failure in one line.

The table of all commands is in overview.py.  Exit codes are in failures.py.  Operator commands
(command.py), which are serve, gateway, demo and `events connect`, end with 1 for every failure but
wrong usage.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
from click.exceptions import Abort, ClickException

from graveler import __version__
from graveler.cli import failures, overview
from graveler.cli.arguments import shared_options
from graveler.cli.command import Tables
from graveler.cli.invocation import Declined, Invocation, close
from graveler.cli.output import guard
from graveler.errors import GravelerError
from graveler.variables import environment

# The extras of the package that bring what some commands import.
_EXTRAS: Final = {
    **dict.fromkeys(("boto3", "botocore", "pynamodb"), "aws"),
    **dict.fromkeys(("cryptography", "jwt", "msgspec", "uvicorn", "yaml"), "server"),
    **dict.fromkeys(("airportsdata", "lakefs"), "demo"),
}


def root() -> Tables:
    """The root of all commands."""
    version = overview.VERSION
    return Tables(
        "graveler",
        table=overview.COMMANDS,
        params=[
            click.Option(
                [*version.names],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help=version.help,
            ),
            *shared_options(),
        ],
        context_settings={
            "help_option_names": [*overview.HELP_NAMES],
            "max_content_width": overview.WIDTH_MAX,
        },
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    invocation = Invocation()
    instruction = environment().get("_GRAVELER_COMPLETE")
    if instruction and argv is None:
        from graveler.cli import shells

        return shells.answer(root(), {"obj": invocation}, instruction)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # a name need not be one that it can encode
            sys.stdout.reconfigure(errors="backslashreplace")
        guard()
        code = _run(list(sys.argv[1:] if argv is None else argv), invocation)
        sys.stdout.flush()
        return code
    except (OSError, UnicodeError, EOFError) as error:
        return refused(error, invocation)
    finally:
        close(invocation)


def refused(error: OSError | UnicodeError | EOFError, invocation: Invocation | None = None) -> int:
    """Report what the system refuses, or a file that is cut short, and return the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader of the output has closed it
        _drop_output()
        return failures.FAILED
    code = failures.report_system(error, invocation or Invocation())
    try:
        sys.stdout.flush()
    except OSError:  # what is left cannot be written; Python would try again at the end
        _drop_output()
    return code


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        return failures.report_declined(invocation)
    except ModuleNotFoundError as error:
        return _missing(error, argv)
    except (KeyboardInterrupt, Abort) as interrupt:
        return failures.report_interrupt(str(interrupt), invocation)


def _missing(error: ModuleNotFoundError, argv: list[str]) -> int:
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    sys.stdout.flush()
    command = next((word for word in argv if word in overview.COMMANDS), "")
    needed = {_EXTRAS[package], *overview.extras_of(argv).split(",")}
    print(
        f"{f'graveler {command}'.strip()}: package {package} is not installed: "
        f"pip install 'graveler[{','.join(sorted(needed))}]'",
        file=sys.stderr,
    )
    return failures.FAILED


def _print_version(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        print(f"graveler {__version__}")
        ctx.exit()
