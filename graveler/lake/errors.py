"""The errors of the library: those of graveler/core/errors.py, which are also Python's own.

A missing object is a `FileNotFoundError`, a refusal a `PermissionError`, a wrong argument a
`ValueError`, and so on, so that `except` says what a Python user would write.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, wraps
from inspect import isfunction, isgeneratorfunction
from typing import Any, Final, TypeVar, cast

from graveler.core import errors as core

F = TypeVar("F", bound=Callable[..., Any])
_NOT_UNIQUE: Final = "not unique"  # ends what servers say of a taken name
_NAMELESS: Final = re.compile(r"(\w+: )?([a-z ]+ )?not found")  # what servers say of a missing name
_SPECIAL: Final = ("__iter__", "__enter__", "__exit__", "__getitem__")


class Error(core.GravelerError):
    """Base class of the errors of this library."""

    @property
    def kind(self) -> str:
        """What failed: a word that does not change, such as `not_found`.  That of an error is in
        the table of errors; `certificate_refused` is a server whose certificate is not trusted."""
        return str(self.code)

    @property
    def reason(self) -> str:
        """The message of the server alone."""
        return self.fields.get("reason", "") or str(self)

    @property
    def remedy(self) -> str:
        """What to do; empty if only the text says it."""
        return self.fields.get("remedy", "")

    @property
    def request_id(self) -> str:
        """The id of the request, under which the operator finds the cause in the log."""
        return self.fields.get("request_id", "")


class NotFound(Error, core.NotFound, FileNotFoundError):
    """The repository, ref, path or object does not exist."""


class Gone(NotFound, core.Gone):
    """The object is known, but its bytes were deleted."""


class Conflict(Error, core.Conflict):
    """The state does not allow the call: read again, decide, retry."""


class AlreadyExists(Conflict, core.AlreadyExists, FileExistsError):
    """The name is taken."""


class PreconditionFailed(Conflict, core.PreconditionFailed, FileExistsError):
    """What the call demanded does not hold: the object exists, or the branch has moved."""


class MergeConflict(Conflict, core.MergeConflict):
    """Both sides changed the same paths; nothing was written.  `paths`: the first of them."""

    paths: tuple[str, ...] = ()


class Contended(Conflict, core.Contended):
    """Others wrote at the same time, again and again; nothing was written."""


class Invalid(Error, core.Invalid, ValueError):
    """An argument breaks a rule."""


class NoChanges(Invalid, core.NoChanges):
    """There is nothing to commit or merge."""


class DirtyBranch(Invalid, core.DirtyBranch):
    """The branch has uncommitted changes that the call would discard."""


class RangeUnsatisfiable(Invalid, core.RangeUnsatisfiable):
    """The bytes lie outside the object."""


class Unsupported(Invalid, core.Unsupported):
    """This server never supports the call."""


class Refused(Error, core.Refused, PermissionError):
    """The rights of the caller, or a rule of the repository, forbid the call."""


class Unauthenticated(Error, core.Unauthenticated, PermissionError):
    """The credentials are missing, wrong or expired."""


class HookFailed(Error, core.HookFailed):
    """An action of the repository vetoed the change; nothing changed."""


class Throttled(Error, core.Throttled):
    """Too many calls; wait `seconds`."""


class Unavailable(Error, core.Unavailable, ConnectionError):
    """The server did not answer, or is busy; nothing was changed."""


class OutcomeUnknown(Unavailable, core.OutcomeUnknown):
    """A write was sent and nobody knows whether it was done: read, then decide."""


class TimedOut(Unavailable, TimeoutError):
    """What was waited for did not end in time; it goes on."""

    code = core.Code.TIMED_OUT


class HistoryTooLong(OutcomeUnknown, core.HistoryTooLong):
    """The search for a commit that may have landed gave up."""


class HandedOver(Unavailable, core.HandedOver):
    """The work waits for a cluster.  `job`: its id."""


class StorageFull(Unavailable, core.StorageFull):
    """The storage is full; nothing was changed."""


class Corrupt(Error, core.Corrupt):
    """Bytes differ from what was written."""


class Internal(Error, core.Internal):
    """A bug of Graveler, or no Graveler at this URL."""


def _pairs() -> Iterator[tuple[type[core.GravelerError], type[Error]]]:
    for kind in list(globals().values()):
        if isinstance(kind, type) and issubclass(kind, Error):
            twin = getattr(core, kind.__name__, None)
            if twin is not None:
                yield twin, kind


_KINDS: Final[Mapping[type[core.GravelerError], type[Error]]] = dict(_pairs())


def of(error: core.GravelerError, caller: object = None) -> Error:
    """The same error as one of this module.  `caller`: whose method raised it; it names what was
    not found, if the text does not."""
    if isinstance(error, Error):
        _name(error, caller)
        _note(error)
        return error
    kinds = (_KINDS[each] for each in type(error).__mro__ if each in _KINDS)
    kind = next(kinds, Error)
    text = error.fields.get("reason", "") or str(error)
    twin = kind.__new__(kind, text)
    twin.args = (text,)
    twin.__dict__.update(error.__dict__)
    _name(twin, caller)
    _note(twin)
    return twin


def _note(error: Error) -> None:
    """Let a traceback show the remedy; the text stays the reason."""
    note = f"try: {error.remedy}"
    is_known = error.remedy in str(error) or note in getattr(error, "__notes__", ())
    if error.remedy and not is_known:
        error.add_note(note)


def _name(error: Error, caller: object) -> None:
    if isinstance(caller, Raising) and caller._named and _NAMELESS.fullmatch(str(error)):
        error.args = (f"{error}: {caller._named}",)


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """An import of packages that an extra brings: an error says which."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "graveler":
            raise
        raise ModuleNotFoundError(
            f"package {package} is not installed: it comes with pip install 'graveler[{extra}]'",
            name=error.name,
        ) from error


@contextmanager
def advising(kind: type[core.GravelerError], remedy: str) -> Iterator[None]:
    """A call whose errors of a kind have this remedy, unless they have one."""
    try:
        yield
    except kind as error:
        error.fields = {"remedy": remedy, **error.fields}
        raise


@contextmanager
def creating(kind: str, name: str, remedy: str = "") -> Iterator[None]:
    """A call that creates something: servers answer only a conflict if the name is taken, which has
    this remedy."""
    try:
        yield
    except core.Conflict as error:
        if isinstance(error, core.AlreadyExists):
            raise
        reason, more = error.fields.get("reason", ""), dict[str, str]()
        if reason.endswith(_NOT_UNIQUE):
            reason, more = f"{kind} exists already: {name}", {"remedy": remedy} if remedy else {}
        taken = core.AlreadyExists(reason)
        taken.fields = {**error.fields, "reason": reason, **more}
        raise taken from None


def raising(function: F) -> F:
    """`function`, whose errors are those of this module; also while its result is iterated, if it
    is a generator."""
    if isgeneratorfunction(function):

        @wraps(function)
        def generator(*args: Any, **named: Any) -> Generator[Any, Any, Any]:
            try:
                return (yield from function(*args, **named))
            except core.GravelerError as error:
                raise of(error, *args[:1]) from error.__cause__

        return cast(F, generator)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except core.GravelerError as error:
            raise of(error, *args[:1]) from error.__cause__

    return cast(F, call)


class Raising:
    """A base class: the methods and properties of its subclasses raise the errors of this
    module."""

    _named: str = ""  # what its methods are about

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, value in list(vars(cls).items()):
            if isinstance(value, property) and value.fget is not None:
                setattr(cls, name, property(raising(value.fget), doc=value.__doc__))
            elif isinstance(value, cached_property):
                value.func = raising(value.func)
            elif isfunction(value) and (name in _SPECIAL or not name.startswith("__")):
                setattr(cls, name, raising(value))
