"""The kinds of commands, and plug-ins.

client     a command against a server; its function takes an `Invocation` first
tending    a client command that can also open an embedded store, by `--store`
operator   a command that runs a store, or sets AWS up; failures end with 1
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.commands import COMMANDS
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import SharedOption, shared_option, shared_options
from graveler.core.errors import GravelerError, UsageMistake
from graveler.core.settings import environment

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = Callable[..., int | None]
COMPLETE: Final = "_GRAVELER_COMPLETE"  # set by the shell that asks for completions
_PATHS: Final = "graveler.paths"  # where a context keeps the words after `--`


class Tables(click.Group):
    """The group of all commands.  It imports a command when it is called."""

    def __init__(self, name: str, **more: Any) -> None:
        proposed = {name: click.Command(name) for name in _visible()}  # for a misspelt word
        super().__init__(name, proposed, **more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None if ctx.resilient_parsing else find_plugin(cmd_name)
        module, _, name = entry.place.partition(":")
        command = getattr(import_module(f"graveler.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        pair = " ".join(args[:2])
        if pair in COMMANDS and len(args) > 1:  # a name of lakectl: `gc get-config`
            return pair, self.get_command(ctx, pair), args[2:]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """As Click does, without an import of any command."""
        from click.shell_completion import CompletionItem

        return [
            *(
                CompletionItem(name, help=COMMANDS[name].help)
                for name in _visible()
                if name.startswith(incomplete)
            ),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title in dict.fromkeys(entry.section for entry in COMMANDS.values() if entry.section):
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, entry.help)
                        for name, entry in COMMANDS.items()
                        if entry.section == title
                    ]
                )


def _visible() -> list[str]:
    return [name for name, entry in COMMANDS.items() if entry.section]


class Group(click.Group):
    """A group of one module, whose commands are listed in the order of the module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class ExampleCommand(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class ClientCommand(ExampleCommand):
    """A command against a server.

    An option of its own replaces a shared one of the same name.  The shared one may then stand
    before the command only."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        own = {name for param in self.params for name in param.opts}
        self.params += [param for param in shared_options() if own.isdisjoint(param.opts)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        options = [each for word in args[:end] for each in self._without_value(word)]
        return super().parse_args(ctx, options + args[end:])

    def _without_value(self, word: str) -> list[str]:
        """A flag may have a value, as in lakectl: `--gitignore=false`."""
        name, _, value = word.partition("=")
        if value.lower() in ("true", "false"):
            for param in self.params:
                if isinstance(param, click.Option) and param.is_flag and name in param.opts:
                    return [name] if value.lower() == "true" else param.secondary_opts[:1]
        return [word]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As Click does; the shared options are named alone."""
        rows, shared = [], []
        for param in self.get_params(ctx):
            if isinstance(param, SharedOption):
                shared += [] if param.hidden else [param.opts[0]]
            elif row := param.get_help_record(ctx):
                rows.append(row)
        if rows:
            with formatter.section("Options"):
                formatter.write_dl(rows)
        with formatter.section("Options of all client commands (see graveler --help)"):
            formatter.write_text(" ".join(shared))


class TendingCommand(ClientCommand):
    """A client command that can also open an embedded store (`store_of`).

    `--server` needs no value: alone, it is the server of the profile."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        shared = {"is_flag": False, "flag_value": "", "metavar": "[URL]"}
        server = shared_option("--server", help="the server, instead of a store", **shared)
        self.params = [server if param.name == "server" else param for param in self.params]


class PathsCommand(ClientCommand):
    """A client command that takes paths after `--`, apart from its arguments (`paths_of`).
    `after`: what usage says of them."""

    def __init__(self, *args: Any, after: str = "[-- PREFIX]", **more: Any) -> None:
        super().__init__(*args, **more)
        self._after = after

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_PATHS] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), self._after]


def paths_of(ctx: click.Context) -> tuple[str, ...]:
    """The words after `--`."""
    return tuple(ctx.meta.get(_PATHS, ()))


class OperatorCommand(ExampleCommand):
    """A command that runs a store, or sets AWS up.  Any failure prints one line and ends with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GravelerError as error:
            sys.stdout.flush()
            path = ctx.command_path.split()[1]
            print(f"graveler {path}: {error}", file=sys.stderr)
            return 1


def client(
    name: str,
    *,
    group: click.Group | None = None,
    kind: type[ClientCommand] = ClientCommand,
    **more: Any,
) -> Callable[[F], ClientCommand]:
    """Make a client command of a function; its docstring is the help."""

    def create(function: F) -> ClientCommand:
        command = click.command(name, cls=kind, **more)(click.pass_obj(function))
        if group is not None:
            group.add_command(command)
        return command

    return create


def operator(
    name: str, *, group: click.Group | None = None, **more: Any
) -> Callable[[Callable[..., int]], OperatorCommand]:
    """Make an operator command of a function; its docstring is the help."""

    def create(function: Callable[..., int]) -> OperatorCommand:
        command = click.command(name, cls=OperatorCommand, **more)(function)
        if group is not None:
            group.add_command(command)
        return command

    return create


def group(
    name: str, *, parent: click.Group | None = None, **more: Any
) -> Callable[[Callable[[], None]], Group]:
    """Make a group of a function; its docstring is the help."""

    def create(function: Callable[[], None]) -> Group:
        commands = click.group(name, cls=Group, **more)(function)
        if parent is not None:
            parent.add_command(commands)
        return commands

    return create


def run_command(command: click.Command, **values: Any) -> int:
    """Run another command in the context of this one; its exit code."""
    return int(click.get_current_context().invoke(command, **values))


# ---- plug-ins: a program `graveler-NAME` on PATH is the command NAME -----------------------------

_PLUGIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
_SIGN_IN: Final = re.compile(
    r"(GRAVELER|LAKECTL|LAKEFS)_.*(SECRET|TOKEN|PASSWORD|AUTH|ACCESS_KEY|ENDPOINT).*", re.DOTALL
)


class Plugin(click.Command):
    """The program of a plug-in, as a command.  It gets its arguments as they were typed, and its
    exit code is that of the command.

    It does not get the variables that say how to sign in: a plug-in that needs the server calls
    `graveler api`, which signs in by a profile or by lakectl's file."""

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
        os.execve(self._program, [self._program, *ctx.args], _without_sign_in(environment()))


def find_plugin(name: str) -> Plugin | None:
    """The plug-in with this name.  PATH is searched, so call it last."""
    if not _PLUGIN_NAME.fullmatch(name):
        return None
    from shutil import which

    program = which(f"graveler-{name}", path=environment().get("PATH"))
    return None if program is None else Plugin(name, program)


def _without_sign_in(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not _SIGN_IN.fullmatch(name)}
