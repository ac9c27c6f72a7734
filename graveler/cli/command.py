"""The classes of commands: their help, and the options that all of them share.

    Tables     the group of all commands, which are named in a literal table (overview.py)
    client     a command against a server; its function takes an `Invocation` first
    tending    a client command that can also open an embedded store, by `--store`
    operator   a command that runs a store, or sets AWS up; failures end with 1

The options of all client commands (`--json`, `--profile` …) may stand before or after the command.
For this folder.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click
from click.exceptions import NoSuchCommand

from graveler.cli import overview
from graveler.cli.arguments import SharedOption, is_shared, shared_option, shared_options
from graveler.cli.overview import Entry
from graveler.errors import GravelerError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = Callable[..., int | None]
_SENTENCE_MAX: Final = 1_000  # characters of the first sentence of a help
_PATHS: Final = "graveler.paths"  # where a context keeps the words after `--`


class Tables(click.Group):
    """The group of all commands.  It imports a command when it is called."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], **more: Any) -> None:
        super().__init__(*args, **more)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        pair = " ".join(args[:2])
        if len(args) > 1 and pair in self.table:  # a name of lakectl: `gc get-config`
            return pair, self.get_command(ctx, pair), args[2:]
        if args and args[0] not in self.table and not ctx.resilient_parsing:
            plugin = None
            if ctx.parent is None:
                from graveler.cli import plugins

                plugin = plugins.find(args[0])
            if plugin is not None:
                return args[0], plugin, args[1:]
            visible = [name for name, entry in self.table.items() if entry.section]
            raise NoSuchCommand(args[0], possibilities=visible, ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands of the help that begin so, else the options.  It imports no command."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=entry.help)
            for name, entry in self.table.items()
            if entry.section and name.startswith(incomplete)
        ]

    def get_help(self, ctx: click.Context) -> str:
        return overview.text()


class Group(click.Group):
    """A group of one module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of the module

    def visible(self, ctx: click.Context) -> list[str]:
        """The names of the commands that are not hidden."""
        return [name for name in self.list_commands(ctx) if not self.commands[name].hidden]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As Click does; a wrong word leads to no hidden command."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(
                error.command_name, possibilities=self.visible(ctx), ctx=ctx
            ) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As Click does, with whole sentences."""
        shown = [
            (name, self.commands[name].get_short_help_str(_SENTENCE_MAX))
            for name in self.visible(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(shown)


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
        shared = [
            param
            for param in self.get_params(ctx)
            if isinstance(param, SharedOption) and not param.hidden
        ]
        rows = [
            row
            for param in self.get_params(ctx)
            if isinstance(param, click.Option)
            and not is_shared(param)
            and (row := param.get_help_record(ctx)) is not None
        ]
        if rows:
            with formatter.section("Options"):
                formatter.write_dl(rows)
        with formatter.section("Options of all client commands (see graveler --help)"):
            formatter.write_text(" ".join(param.opts[0] for param in shared))


class TendingCommand(ClientCommand):
    """A client command that can also open an embedded store (subject.py).

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
    examples: Sequence[str] = (),
    **more: Any,
) -> Callable[[F], ClientCommand]:
    """Make a client command of a function; its docstring is the help."""

    def create(function: F) -> ClientCommand:
        command = click.command(name, cls=kind, examples=examples, **more)(click.pass_obj(function))
        if group is not None:
            group.add_command(command)
        return command

    return create


def operator(
    name: str, *, group: click.Group | None = None, examples: Sequence[str] = ()
) -> Callable[[Callable[..., int]], OperatorCommand]:
    """Make an operator command of a function; its docstring is the help."""

    def create(function: Callable[..., int]) -> OperatorCommand:
        command = click.command(name, cls=OperatorCommand, examples=examples)(function)
        if group is not None:
            group.add_command(command)
        return command

    return create


def group(name: str, *, parent: click.Group | None = None) -> Callable[[Callable[[], None]], Group]:
    """Make an empty group of a function; its docstring is the help."""

    def create(function: Callable[[], None]) -> Group:
        commands = click.group(name, cls=Group)(function)
        if parent is not None:
            parent.add_command(commands)
        return commands

    return create


def run_command(command: click.Command, **values: Any) -> int:
    """Run another command in the context of this one; its exit code."""
    return int(click.get_current_context().invoke(command, **values))
