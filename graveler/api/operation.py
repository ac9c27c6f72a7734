"""The declaration of an operation: everything that the service knows about it, in one place.

    _branches = Resource("branches")

    @_branches.get("getBranch", BRANCH, Ref, ("fs:ReadBranch", BRANCH_ARN), runs=Runs.POINT)
    def get_branch(call: Call) -> Answer:
        '''Get a branch and its head.'''

The annotations `body`, `query` and `headers` name the types of the input.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec

from graveler.api.answers import AnswerType, MediaType
from graveler.auth.permissions import Permission
from graveler.core.errors import GravelerError
from graveler.core.records import ABSENT, Absent
from graveler.http import dispatch
from graveler.http.answers import Answer
from graveler.http.dispatch import Runs, require, summary_of
from graveler.http.permissions import template

API_PREFIX: Final = "/api/v1"
REPO: Final = "/repositories/{repository}"
BRANCH: Final = REPO + "/branches/{branch}"
REF: Final = REPO + "/refs/{ref}"

# Operations that need no credentials.  A test fixes the list.
OPEN: Final = frozenset(
    (
        "healthCheck",
        "getSetupState",
        "setup",
        "login",
        "externalPrincipalLogin",
        "stsLogin",
        "getAuthCapabilities",
    )
)
# Operations for every caller with credentials, whatever its permissions.  A test fixes the list.
FOR_EVERY_CALLER: Final = frozenset(("getCurrentUser", "mayI", "postStatsEvents"))
# Operations on many items: the endpoint authorizes each item, and the answer reports each.
BY_ITEM: Final = frozenset(("deleteObjects",))

# Operations with a body that change nothing: questions, statistics, signs of life.  The audit trail
# has only their denials.  A test fixes the list.
UNAUDITED: Final = frozenset(("mayI", "postStatsEvents", "beatBulkJob", "beatCollectionTurn"))

_SEGMENT: Final = re.compile(r"\{(\w+)\}")
_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_WITHOUT_BODY: Final = frozenset(("GET", "HEAD"))


class Conditional(NamedTuple):
    """A permission that only some requests need: those in which `when` holds.  The endpoint checks
    it (http/permissions.py)."""

    when: str
    permission: Permission


class Body(msgspec.Struct, frozen=True):
    """The base of types of JSON bodies.  A body that is an array is a `tuple` of such a type.  Its
    text shows no field: some are secrets."""

    __repr__ = object.__repr__


class Query(msgspec.Struct, frozen=True):
    """The base of types of query parameters.  Its fields are `str`, `bool`, `int`, a choice of
    strings, or `tuple[str, ...]` for a parameter that may be repeated."""


class RequestHeaders(msgspec.Struct, frozen=True):
    """The base of types of headers.  Its fields are strings; an absent header is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(dispatch.Operation):
    """One operation of the API.

    `conditional`: permissions that some requests need.  `path` is relative to `API_PREFIX`.
    `answers` maps a status to the type of its body.  `reads_body`: the endpoint itself receives the
    body, which is not JSON.
    """

    path: str
    tag: str
    conditional: tuple[Conditional, ...]
    answers: Mapping[int, AnswerType]
    reads_body: bool
    query: type[Query] | Literal[Absent.ABSENT]
    body: Any  # a type of `Body`, a tuple of one, or `ABSENT`
    headers: type[RequestHeaders] | Literal[Absent.ABSENT]

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names between braces in `path`, in order."""
        return tuple(_SEGMENT.findall(self.path))

    @property
    def authenticated(self) -> bool:
        """Whether the caller needs credentials."""
        return self.name not in OPEN

    @property
    def audited(self) -> bool:
        """Whether the operation changes something, so that each answer is put on record."""
        return self.method not in _WITHOUT_BODY and self.name not in UNAUDITED


NOTHING: Final[Mapping[int, AnswerType]] = {204: MediaType.NOTHING}
Needs = Permission | tuple[str, str]  # an action, and the resource


Declaration = Callable[[Callable[..., Any]], Operation]


class Resource:
    """Declares operations that have one tag in the OpenAPI document (see `declaration`)."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def get(self, name: str, path: str, answers: Any, *needs: Needs, **more: Any) -> Declaration:
        return declaration(self._tag, "GET", name, path, answers, *needs, **more)

    def head(self, name: str, path: str, answers: Any, *needs: Needs, **more: Any) -> Declaration:
        return declaration(self._tag, "HEAD", name, path, answers, *needs, **more)

    def post(self, name: str, path: str, answers: Any, *needs: Needs, **more: Any) -> Declaration:
        return declaration(self._tag, "POST", name, path, answers, *needs, **more)

    def put(self, name: str, path: str, answers: Any, *needs: Needs, **more: Any) -> Declaration:
        return declaration(self._tag, "PUT", name, path, answers, *needs, **more)

    def patch(self, name: str, path: str, answers: Any, *needs: Needs, **more: Any) -> Declaration:
        return declaration(self._tag, "PATCH", name, path, answers, *needs, **more)

    def delete(self, name: str, path: str, answers: Any, *needs: Needs, **more: Any) -> Declaration:
        return declaration(self._tag, "DELETE", name, path, answers, *needs, **more)


def declaration(
    tag: str,
    method: str,
    name: str,
    path: str,
    answers: AnswerType,
    *needs: Needs,
    conditional: tuple[Conditional, ...] = (),
    errors: tuple[type[GravelerError], ...] = (),
    runs: Runs | Literal[Absent.ABSENT] = ABSENT,
    reads_body: bool = False,
) -> Declaration:
    """Declare the decorated function as the endpoint of an operation.

    `answers`: by status; a type alone is the body of a 200.  `needs`: the permissions.  `runs`: by
    default a change runs in a thread, and a read as a walk.  Raises `TypeError`.
    """
    by_status = answers if isinstance(answers, dict) else {200: answers}
    permissions = tuple(
        each if isinstance(each, Permission) else Permission(*each) for each in needs
    )
    if runs is ABSENT:
        runs = Runs.WALK if method in _WITHOUT_BODY else Runs.POOL

    def declare(function: Callable[..., Any]) -> Operation:
        assert isinstance(function, FunctionType), "an endpoint is a function"
        endpoint = function
        inputs = _inputs(name, endpoint)
        query: Any = _input(name, inputs, "query", Query)
        body: Any = _input(name, inputs, "body", Body)
        headers: Any = _input(name, inputs, "headers", RequestHeaders)
        require(name, not inputs, f"unknown parameters {sorted(inputs)}")
        require(name, method in _METHODS and bool(by_status), "a method and answers are needed")
        has_body = body is not ABSENT or reads_body
        require(name, not (has_body and method in _WITHOUT_BODY), f"a {method} has no body")
        is_stream = bool(endpoint.__code__.co_flags & inspect.CO_COROUTINE)
        require(name, is_stream == (runs is Runs.STREAM), "a coroutine is a STREAM")
        exempt = name in OPEN or name in FOR_EVERY_CALLER
        require(name, bool(permissions) != exempt, "permissions are needed, unless it is listed")
        names = _SEGMENT.findall(path)
        return Operation(
            name=name,
            method=method,
            path=path,
            tag=tag,
            summary=summary_of(name, endpoint),
            permissions=permissions,
            actions=frozenset(each.action for each in permissions),
            conditional=conditional,
            templates=tuple(template(each, names, query, body) for each in permissions),
            answers=by_status,
            errors=errors,
            runs=runs,
            by_item=name in BY_ITEM,
            reads_body=reads_body,
            endpoint=endpoint,
            query=query,
            body=body,
            headers=headers,
        )

    return declare


def _inputs(name: str, endpoint: FunctionType) -> dict[str, Any]:
    """The parameters of an endpoint behind `call`, with their types."""
    # Reflection that evaluates annotations takes ten times as long, at each start of a process.
    code, types = endpoint.__code__, endpoint.__annotations__
    first, *others = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    require(name, first == "call", "the first parameter is the call")
    require(name, types.get("return") is Answer, "an endpoint returns an Answer")
    return {each: types.get(each) for each in others}


def _input(name: str, inputs: dict[str, Any], parameter: str, base: type) -> Any:
    kind = inputs.pop(parameter, ABSENT)
    is_right = kind is ABSENT or _is_of(kind, base) or (base is Body and _is_list_of(kind, base))
    require(name, is_right, f"{parameter} is no {base.__name__}")
    return kind


def _is_of(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _is_list_of(kind: Any, base: type) -> bool:
    """Whether a type is `tuple[base, ...]`, with rules or without."""
    plain = kind.__origin__ if hasattr(kind, "__metadata__") else kind
    return get_origin(plain) is tuple and _is_of(get_args(plain)[0], base)
