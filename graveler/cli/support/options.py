"""Options and arguments that several commands take."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from click.core import ParameterSource

from graveler.cli.support.address import SCHEME, is_remote
from graveler.cli.support.invocation import Invocation
from graveler.core.errors import Invalid, UsageMistake
from graveler.core.settings import environment

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:  # generic only in the stubs of some releases
    _ParamType = click.ParamType
F = Callable[..., int | None]
FOLDER: Final = click.Path(path_type=Path)
STORE_VARIABLE: Final = "GRAVELER_STORE"


# ---- the options of all client commands ----------------------------------------------------------


class SharedOption(click.Option):
    """An option that is stored in the `Invocation` instead of being an argument."""


def shared_option(*names: str, **more: Any) -> click.Option:
    """An option of all client commands."""
    return SharedOption(names, expose_value=False, callback=_store, **more)


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if param.name and value is not None and value is not False:
        ctx.ensure_object(Invocation).flags[param.name] = value
    return value


def shared_options() -> list[click.Parameter]:
    """The options of all client commands, which may stand before or after the command."""
    option = shared_option
    colors = click.Choice(("auto", "always", "never"))
    return [
        option("--json", is_flag=True, help="print the objects of the API as JSON"),
        option("--jsonl", is_flag=True, help="print a JSON object a line, as they come"),
        option("--profile", metavar="NAME", help="the profile to use (GRAVELER_PROFILE)"),
        option("--server", metavar="URL", help="the server, instead of the profile's"),
        option("--access-key-id", metavar="ID", help="the access key; needs --secret-stdin"),
        option("--secret-stdin", is_flag=True, help="read the secret from the standard input"),
        option("--config", "-c", metavar="FILE", help="lakectl's file (~/.lakectl.yaml)"),
        option("--base-uri", metavar="TEXT", help="put this before addresses"),
        option(
            "--color",
            type=colors,
            metavar="[auto|always|never]",
            help="colours: auto, always or never",
        ),
        option("--utc", is_flag=True, help="print times in UTC"),
        option("--no-input", is_flag=True, help="never ask; fail instead"),
        option("--quiet", "-q", is_flag=True, help="print results only"),
        option("--verbose", "-v", is_flag=True, help="print every request on stderr"),
        # of lakectl, which logs to a file of its own
        option("--no-color", "color", flag_value="never", hidden=True),
        *(option(f"--log-{name}", hidden=True) for name in ("level", "format", "output")),
    ]


# ---- kinds of options that Click lacks -----------------------------------------------------------


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


def ignored(*flags: str, takes: Sequence[str] = ()) -> Callable[[F], F]:
    """Accept options of lakectl that change nothing here: `flags`, and `takes` with a value."""
    options = [[f"{name}/--no-{name.removeprefix('--')}"] for name in flags]
    options += [name.split() for name in takes]

    def add(function: F) -> F:
        for names in options:
            function = click.option(*names, expose_value=False, hidden=True)(function)
        return function

    return add


# ---- addresses -----------------------------------------------------------------------------------


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
    from graveler.cli.support.completion import addresses

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
    from graveler.cli.support.completion import addresses

    return addresses(ctx.ensure_object(Invocation), incomplete)


def complete_side(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """What an address with lakefs:// before it, or else a file, could be."""
    from click.shell_completion import CompletionItem

    if is_remote(incomplete):
        return _complete_whole(ctx, param, incomplete)
    if SCHEME.startswith(incomplete) and incomplete.startswith(SCHEME.partition(":")[0]):
        return [CompletionItem(SCHEME)]
    return [CompletionItem(incomplete, type="file")]


def complete_ref(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """What an option could be that is a ref of the repository of the command: that of its address,
    else that of the linked folder."""
    from graveler.cli.support.completion import refs_of

    first = next((each for each in ctx.command.params if isinstance(each, AddressArgument)), None)
    subject = _text(ctx, first) if first is not None else ""
    return refs_of(ctx.ensure_object(Invocation), incomplete, subject)


# ---- lists, times and questions ------------------------------------------------------------------


def paging(function: F) -> F:
    """Add `--prefix`, `--after` and `-n`."""
    prefix = click.option("--prefix", default="", metavar="TEXT", help="only names with it")
    after = click.option("--after", default="", metavar="NAME", help="only names after it")
    return count(after(prefix(function)))


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
    """Add `--at`: refs are read as they were at a time, by the dates of commits (times.py)."""
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


def metadata_option(function: F) -> F:
    """Add `--meta`; `metadata_pairs` reads it."""
    return click.option(
        "--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)"
    )(function)


# ---- a store or a server -------------------------------------------------------------------------


def store_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--store`."""
    return click.option(
        "--store",
        type=FOLDER,
        metavar="DIR",
        help=f"the folder of a store that is not being served ({STORE_VARIABLE})",
    )(function)


def store_of(invocation: Invocation, store: Path | None) -> Path | None:
    """The folder of the store that a command tends; None: the server of the invocation.

    The first that is given decides: `--store`; `--server`, `--profile` or `--config`;
    GRAVELER_STORE; the profile.  Raises `UsageError` if nothing is, or both are."""
    if store is not None:
        if "server" in invocation.flags:
            raise click.UsageError("--store and --server exclude each other", _context())
        return store
    if any(flag in invocation.flags for flag in ("server", "profile", "config")):
        return None
    known = environment().get(STORE_VARIABLE, "")
    if not known and not invocation.profile.server:
        raise click.UsageError(
            f"no store and no server: give --store DIR or --server URL, set {STORE_VARIABLE}, or "
            "run `graveler login URL`",
            _context(),
        )
    return Path(known) if known else None


def needed_store(invocation: Invocation, store: Path | None, reason: str, remedy: str) -> Path:
    """The folder of the store, for what no operation of the API does.  Raises `UsageMistake` with
    the reason and the remedy if a server is meant."""
    folder = store_of(invocation, store)
    if folder is None:
        raise UsageMistake(f"{reason}: give --store DIR or set {STORE_VARIABLE}", remedy=remedy)
    return folder


def _context() -> click.Context:
    return click.get_current_context()
