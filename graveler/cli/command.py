"""The classes of commands: their help, and the options that all of them share.

    Tables     a group whose commands are named in a literal table, so that its help imports none
    client     a command against a server; its function takes an `Invocation` first
    tending    a client command that can also open an embedded store, by `--store`
    operator   a command that runs a store, or sets AWS up; every failure ends with 1

The options of all client commands (`--json`, `--profile` …) may stand before or after the command.
For this folder.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click
from click.core import ParameterSource
from click.exceptions import NoSuchCommand

from graveler.cli.address import UsageMistake
from graveler.cli.invocation import Invocation
from graveler.errors import GravelerError, Invalid

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:  # generic only in the stubs of some releases
    _ParamType = click.ParamType
F = Callable[..., int | None]
_PATHS: Final = "graveler.paths"  # where a context keeps the words after `--`
_COLORS: Final = click.Choice(["auto", "always", "never"])


class Entry(NamedTuple):
    """A line of a table of commands: where the command is, and its help line."""

    module: str
    name: str
    help: str
    section: str = ""  # empty: hidden from help


class Tables(click.Group):
    """A group that imports a command when it is called, or when its own help is asked for."""

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.table.items():
            if entry.section:
                sections.setdefault(entry.section, []).append((name, entry.help))
        width = max(len(name) for rows in sections.values() for name, _ in rows)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), help) for name, help in rows])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        rows = [param.get_help_record(ctx) for param in self.get_params(ctx)]
        with formatter.section("Options, before or after a client command"):
            formatter.write_dl([row for row in rows if row is not None])


class Group(click.Group):
    """A group of one module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of the module


class ClientCommand(click.Command):
    """A command against a server.

    An option of its own replaces a shared one of the same name.  The shared one may then stand
    before the command only."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = tuple(examples)
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

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class AliasOption(click.Option):
    """An option with further names, those of lakectl, that help leaves out."""

    def __init__(self, *args: Any, lakectl: Sequence[str] = (), **more: Any) -> None:
        names, *rest = args
        super().__init__([*names, *lakectl], *rest, **more)
        self._others = frozenset(lakectl)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every = self.opts
        self.opts = [name for name in every if name not in self._others]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


class TendingCommand(ClientCommand):
    """A client command that can also open an embedded store (subject.py).

    `--server` needs no value: alone, it is the server of the profile."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        shared = {"is_flag": False, "flag_value": "", "metavar": "[URL]"}
        server = _shared("--server", help="the server, instead of a store", **shared)
        self.params = [server if param.name == "server" else param for param in self.params]


class PathsCommand(ClientCommand):
    """A client command that takes paths after `--`, apart from its arguments (`paths_of`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_PATHS] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PREFIX]"]


def paths_of(ctx: click.Context) -> tuple[str, ...]:
    """The words after `--`."""
    return tuple(ctx.meta.get(_PATHS, ()))


class OperatorCommand(click.Command):
    """A command that runs a store, or sets AWS up.  Any failure prints one line and ends with 1."""

    examples: Sequence[str] = ()

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
    name: str, *, group: click.Group | None = None, **more: Any
) -> Callable[[Callable[..., int]], OperatorCommand]:
    """Make an operator command of a function; its docstring is the help."""

    def create(function: Callable[..., int]) -> OperatorCommand:
        command = click.command(name, cls=OperatorCommand, **more)(function)
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


class Checked(_ParamType):
    """A value that a parser of the product checks: `Invalid` is reported as wrong usage."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except Invalid as error:
            self.fail(str(error), param, ctx)


# ---- arguments and options that several commands take --------------------------------------------


def address_argument(
    name: str, *, here: Literal["", "ref", "prefix"] = "", **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an argument that is an address; shells complete it.  `here`: in a linked folder it may be
    left out, and is then the branch of the folder, or its prefix."""
    if here:
        more |= {"required": False, "callback": _here(whole=here == "prefix")}
        more.setdefault("metavar", f"[{name.upper()}]")
    return click.argument(name, shell_complete=_complete, **more)


def is_here(name: str) -> bool:
    """Whether the address of the command that runs was left out: it is that of the folder."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT


def _here(*, whole: bool) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def address(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is not None or ctx.resilient_parsing:
            return value
        place = ctx.ensure_object(Invocation).here
        if place is None:
            raise UsageMistake(
                "no ref: write REPOSITORY/REF, as in lake/main; only in a linked folder it may be "
                "left out",
                remedy=f"{ctx.command_path} --help",
            )
        return f"lakefs://{place if whole else place.at('')}"

    return address


def _complete(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """What an argument that is an address could be."""
    from graveler.cli.completion import addresses

    return addresses(ctx.ensure_object(Invocation), incomplete)


def shared_options() -> list[click.Parameter]:
    """The options of all client commands."""
    return [
        _shared("--json", is_flag=True, help="print the objects of the API as JSON"),
        _shared("--jsonl", is_flag=True, help="print a JSON object a line, as they come"),
        _shared("--profile", metavar="NAME", help="the profile to use (GRAVELER_PROFILE)"),
        _shared("--server", metavar="URL", help="the server, instead of the profile's"),
        _shared("--access-key-id", metavar="ID", help="the access key; needs --secret-stdin"),
        _shared("--secret-stdin", is_flag=True, help="read the secret from the standard input"),
        _shared("--config", "-c", metavar="FILE", help="lakectl's file (~/.lakectl.yaml)"),
        _shared("--base-uri", metavar="TEXT", help="put this before addresses"),
        _shared("--color", type=_COLORS, help="colours: auto, always or never"),
        _shared("--utc", is_flag=True, help="print times in UTC"),
        _shared("--no-input", is_flag=True, help="never ask; fail instead"),
        _shared("--quiet", "-q", is_flag=True, help="print results only"),
        _shared("--verbose", "-v", is_flag=True, help="print every request on stderr"),
        # of lakectl, which logs to a file of its own
        _shared("--no-color", "color", flag_value="never", hidden=True),
        *(_shared(f"--log-{name}", hidden=True) for name in ("level", "format", "output")),
    ]


def is_shared(parameter: click.Parameter) -> bool:
    """Whether it is an option of all client commands."""
    return isinstance(parameter, SharedOption)


class SharedOption(click.Option):
    """An option that is stored in the `Invocation` instead of being an argument."""


def _shared(*names: str, **more: Any) -> click.Option:
    return SharedOption(names, expose_value=False, callback=_store, **more)


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if param.name and value is not None and value is not False:
        ctx.ensure_object(Invocation).flags[param.name] = value
    return value


def ignored(*flags: str, takes: Sequence[str] = ()) -> Callable[[F], F]:
    """Accept options of lakectl that change nothing here: `flags`, and `takes` with a value."""

    def add(function: F) -> F:
        for name in flags:
            off = f"--no-{name.removeprefix('--')}"
            function = click.option(f"{name}/{off}", expose_value=False, hidden=True)(function)
        for name in takes:
            words = name.split()
            function = click.option(*words, expose_value=False, hidden=True)(function)
        return function

    return add


def paging(function: F) -> F:
    """Add `--prefix`, `--after` and `-n`."""
    function = click.option("--prefix", default="", metavar="TEXT", help="only names with it")(
        function
    )
    function = click.option("--after", default="", metavar="NAME", help="only names after it")(
        function
    )
    return count(function)


def count(function: F) -> F:
    """Add `-n`."""
    return click.option(
        "-n",
        "--amount",
        "amount",
        type=click.IntRange(min=1),
        metavar="N",
        help="at most N (default: all)",
    )(function)


def at(function: F) -> F:
    """Add `--at`: refs are read as they were at a time (past.py)."""
    return click.option(
        "--at",
        expose_value=False,
        callback=_store,
        metavar="TIME",
        help="refs as they were then: '2 days ago', 2026-11-23",
    )(function)


def yes(function: F) -> F:
    """Add `--yes`."""
    return click.option("-y", "--yes", is_flag=True, help="do not ask")(function)
