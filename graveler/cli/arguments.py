"""Arguments and options that several commands take, and the kinds of options that Click lacks.

For this folder.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from click.core import ParameterSource

from graveler.cli import overview
from graveler.cli.address import SCHEME, UsageMistake, is_remote
from graveler.cli.invocation import Invocation
from graveler.cli.overview import COLORS, ClientOption
from graveler.errors import Invalid

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:  # generic only in the stubs of some releases
    _ParamType = click.ParamType
F = Callable[..., int | None]
_COLORS: Final = click.Choice(COLORS)


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


class AddressArgument(click.Argument):
    """An argument that is an address on the server."""


def address_argument(
    name: str, *, here: Literal["", "ref", "prefix"] = "", **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an argument that is an address; shells complete it.  `here`: in a linked folder it may be
    left out, and is then the branch of the folder, or its prefix."""
    if here:
        more |= {"required": False, "callback": _here(whole=here == "prefix")}
        more.setdefault("metavar", f"[{name.upper()}]")
    return click.argument(name, cls=AddressArgument, shell_complete=_complete, **more)


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
    """What an address could be.  A later one of a command may be a ref alone."""
    from graveler.cli.completion import addresses

    first = next(each for each in ctx.command.params if isinstance(each, AddressArgument))
    subject = _text(ctx, first) if param is not first else ""
    return addresses(ctx.ensure_object(Invocation), incomplete, subject)


def _text(ctx: click.Context, param: click.Parameter) -> str:
    """The text of an argument in a line that is not complete."""
    value = ctx.params.get(param.name or "")
    if not value and ctx.args:  # an option without its value ends the work of the parser
        value = ctx.args[0]
    return value if isinstance(value, str) else ""


def side_argument(name: str, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an argument that is an address with lakefs:// before it, or a file; shells complete it as
    what it is."""
    return click.argument(name, shell_complete=complete_side, **more)


def remote_argument(name: str, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an argument that is a whole address also after another one; shells complete it."""
    return click.argument(name, shell_complete=_complete_whole, **more)


def _complete_whole(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from graveler.cli.completion import addresses

    return addresses(ctx.ensure_object(Invocation), incomplete)


def complete_side(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """What an address with lakefs:// before it, or else a file, could be."""
    from click.shell_completion import CompletionItem

    from graveler.cli.completion import addresses

    if is_remote(incomplete):
        return addresses(ctx.ensure_object(Invocation), incomplete)
    if SCHEME.startswith(incomplete) and incomplete.startswith(SCHEME.partition(":")[0]):
        return [CompletionItem(SCHEME)]
    return [CompletionItem(incomplete, type="file")]


def complete_ref(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """What an option could be that is a ref of the repository of the command: that of its address,
    else that of the linked folder."""
    from graveler.cli.completion import refs_of

    first = next((each for each in ctx.command.params if isinstance(each, AddressArgument)), None)
    subject = _text(ctx, first) if first is not None else ""
    return refs_of(ctx.ensure_object(Invocation), incomplete, subject)


def shared_options() -> list[click.Parameter]:
    """The options of all client commands."""
    return [
        *(_shared(option) for option in overview.OPTIONS),
        # of lakectl, which logs to a file of its own
        shared_option("--no-color", "color", flag_value="never", hidden=True),
        *(shared_option(f"--log-{name}", hidden=True) for name in ("level", "format", "output")),
    ]


def _shared(option: ClientOption) -> click.Option:
    if not option.metavar:
        return shared_option(*option.names, is_flag=True, help=option.help)
    kind = _COLORS if "--color" in option.names else None
    return shared_option(*option.names, metavar=option.metavar, type=kind, help=option.help)


def is_shared(parameter: click.Parameter) -> bool:
    """Whether it is an option of all client commands."""
    return isinstance(parameter, SharedOption)


class SharedOption(click.Option):
    """An option that is stored in the `Invocation` instead of being an argument."""


def shared_option(*names: str, **more: Any) -> click.Option:
    """An option of all client commands."""
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
    """Add `--at`: refs are read as they were at a time, by the dates of commits (past.py)."""
    return click.option(
        "--at",
        expose_value=False,
        callback=_store,
        metavar="TIME",
        help="refs at the last commit up to TIME, by the dates of their present history: "
        "'2 days ago', 2026-11-23",
    )(function)


def yes(function: F) -> F:
    """Add `--yes`."""
    return click.option("-y", "--yes", is_flag=True, help="do not ask")(function)
