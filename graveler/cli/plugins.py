"""Plug-ins: a program `graveler-NAME` on PATH is the command NAME, unless a command has the name.

A plug-in gets its arguments as they were typed, and its exit code is that of the command.  It does
not get the variables that say how to sign in: secrets, and with them keys and URLs, so that no
secret of another source is sent to such a URL.  A plug-in that needs the server calls
`graveler api`, which signs in by a profile or by lakectl's file.  For this folder.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from graveler.cli.address import UsageMistake
from graveler.cli.invocation import Invocation
from graveler.variables import environment

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
_SIGN_IN: Final = re.compile(
    r"(GRAVELER|LAKECTL|LAKEFS)_.*(SECRET|TOKEN|PASSWORD|AUTH|ACCESS_KEY|ENDPOINT).*", re.DOTALL
)


class Plugin(click.Command):
    """The program of a plug-in, as a command.  It reads its options itself."""

    def __init__(self, name: str, program: str) -> None:
        super().__init__(name, add_help_option=False)
        self._program = program

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.ensure_object(Invocation).flags:
            raise UsageMistake(f"options of the plug-in {self.name} stand after its name")
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(self._program, [self._program, *ctx.args], without_sign_in(environment()))


def find(name: str) -> Plugin | None:
    """The plug-in with this name.  PATH is searched, so call it last."""
    if not _NAME.fullmatch(name):
        return None
    from shutil import which

    program = which(f"graveler-{name}", path=environment().get("PATH"))
    return None if program is None else Plugin(name, program)


def without_sign_in(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that say how this program signs in."""
    return {name: value for name, value in variables.items() if not _SIGN_IN.fullmatch(name)}
