"""The permissions that a request needs, from those that its operation declares.

    arn:lakefs:fs:::repository/{repository}/branch/{name}      a parameter or a field of the body
    …/object/{paths[]}, …/object/{paths[].destination}          one permission for each item
    …/object/{paths[is_folder].destination}                     one for each item with that property

An empty list needs the permission for everything (`*`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from graveler.auth import permissions
from graveler.auth.access import Caller, refusal
from graveler.auth.permissions import Permission
from graveler.core.records import ABSENT
from graveler.http.service import Call, Service

Read = Callable[[Mapping[str, str], Any, Any], Any]  # path parameters, query, body -> a value
_PLACEHOLDER: Final = re.compile(r"\{([^}]*)\}")
_LIST: Final = re.compile(r"([^\[]+)\[(\w*)\](?:\.(.+))?")
_EVERYTHING: Final = "*"


class Template(NamedTuple):
    """A compiled permission: texts, and what stands between them."""

    action: str
    texts: tuple[str, ...]
    values: tuple[Read, ...]
    is_many: bool  # the last value is a list
    below: bool


def template(permission: Permission, arguments: Sequence[str], query: Any, body: Any) -> Template:
    """Compile a declared permission.  `query` and `body`: the types of the operation, or `ABSENT`.

    Raises `TypeError` for a name that the operation does not have, and for a list that is not the
    last value.
    """
    texts = tuple(_PLACEHOLDER.split(permission.resource)[::2])
    names = _PLACEHOLDER.findall(permission.resource)
    if any("[" in name for name in names[:-1]):
        raise TypeError(f"only the last value may be a list: {permission.resource}")
    values = tuple(_read(name, arguments, query, body) for name in names)
    is_many = bool(names) and "[" in names[-1]
    return Template(permission.action, texts, values, is_many, permission.below)


def needed(
    templates: Sequence[Template], arguments: Mapping[str, str], query: Any, body: Any
) -> tuple[Permission, ...]:
    """The permissions that a request needs: all of them."""
    permissions: list[Permission] = []  # generators would take longer than the rest
    for one in templates:
        resource = one.texts[0]
        singles = one.values[:-1] if one.is_many else one.values
        for read, text in zip(singles, one.texts[1:], strict=False):
            resource += _shown(read(arguments, query, body)) + text
        if one.is_many:
            items, end = one.values[-1](arguments, query, body), one.texts[-1]
            permissions += [
                Permission(one.action, resource + _shown(i) + end, one.below) for i in items
            ]
        else:
            permissions.append(Permission(one.action, resource, one.below))
    return tuple(permissions)


def _shown(value: Any) -> str:
    if type(value) is str:  # nearly always
        return value
    return "" if value is msgspec.UNSET or value is None else str(value)


def _read(name: str, arguments: Sequence[str], query: Any, body: Any) -> Read:
    if name in arguments:
        return lambda arguments, _query, _body: arguments[name]
    if query is not ABSENT and name in query.__struct_encode_fields__:
        of_query = attrgetter(_attribute(query, name))
        return lambda _arguments, query, _body: of_query(query)
    parts = _LIST.fullmatch(name)
    if parts is not None:
        of_items = _items(name, body, *parts.groups(""))
        return lambda _arguments, _query, body: of_items(body)
    of_body = _reader(body, name)
    return lambda _arguments, _query, body: of_body(body)


def _items(name: str, body: Any, listed: str, chosen: str, field: str) -> Callable[[Any], Any]:
    """A function that reads a value of each item of a list, or of each with the property
    `chosen`."""
    of_body = _reader(body, listed)
    kind = _type(body, listed)
    if get_origin(kind) not in (list, tuple):
        raise TypeError(f"the operation has no list {name}")
    item_kind = get_args(kind)[0]
    if chosen and not isinstance(getattr(item_kind, chosen, None), property):
        raise TypeError(f"the operation has no items with {chosen}")
    of_item = _reader(item_kind, field) if field else lambda item: item

    def read(body: Any) -> list[Any]:
        items = of_body(body)
        if not items:
            return [_EVERYTHING]
        return [of_item(item) for item in items if not chosen or getattr(item, chosen)]

    return read


def _reader(kind: Any, names: str) -> Callable[[Any], Any]:
    """A function that reads a field, given by its names on the wire."""
    first, dot, others = names.partition(".")
    attribute = _attribute(kind, first)
    if not dot:
        return attrgetter(attribute)
    of_first, of_others = attrgetter(attribute), _reader(_type(kind, first), others)
    return lambda value: of_others(of_first(value))


def _type(kind: Any, name: str) -> Any:
    """The type of a field.  It takes much longer than a look-up of the field: it is asked only for
    fields of fields, and for lists."""
    return get_type_hints(kind)[_attribute(kind, name)]


def _attribute(kind: Any, name: str) -> str:
    """The attribute of a field that has `name` on the wire.  Raises `TypeError`."""
    fields: tuple[str, ...] = getattr(kind, "__struct_encode_fields__", ())
    if name not in fields:
        raise TypeError(f"the operation has no {name}")
    attribute: str = kind.__struct_fields__[fields.index(name)]
    return attribute


# ---- checks --------------------------------------------------------------------------------------

_DECISION_WEIGHT_MAX: Final = 5_000  # about two milliseconds on the event loop


async def authorize(
    service: Service, caller: Caller, needed: Sequence[Permission], repository: str = ""
) -> None:
    """Check permissions: on the event loop, unless the policies of the caller are such that it
    would keep others waiting.  `repository` and errors: as for `Authenticator.authorize`."""
    decide = service.auth.authorize
    if caller.rights.weight * len(needed) <= _DECISION_WEIGHT_MAX:
        decide(caller, needed, repository)
    else:
        await service.pools.writers.start(decide, caller, needed, repository)


def lacks(call: Call, action: str, path: str) -> bool:
    """Whether the caller lacks the permission for `action` on `path` of the repository.  The audit
    trail gets `path` as an item of a batch that was denied, or that was let through."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    permission = _permission(call, action, path)
    is_refused = bool(call.account.lacks((permission,)))
    (call.refused if is_refused else call.granted).append(permission)
    return is_refused


def require(call: Call, action: str, path: str = "") -> None:
    """Check the permission for `action` on the repository, or on `path` of it.  Raises `Refused`,
    and `NotFound` if the caller may not see the repository."""
    require_each(call, _permission(call, action, path))


def require_below(call: Call, action: str, path: str) -> None:
    """Check the permission for `action` on everything of the repository whose name begins with
    `path`.  Errors as for `require`."""
    require_each(call, _permission(call, action, path)._replace(below=True))


def require_each(call: Call, *needed: Permission) -> None:
    """Check permissions.  Errors as for `require`."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    call.service.auth.authorize(call.account, needed, call.arguments["repository"])


def refuse_denied_below(call: Call, action: str, resource: str) -> None:
    """Raises `Refused` if a deny concerns the action on anything whose name begins with
    `resource`, an ARN, whatever is allowed."""
    assert call.account is not ABSENT, "the operation needs no credentials"
    permission = Permission(action, resource, below=True)
    if call.account.is_denied(permission):
        raise refusal(permission)


def _permission(call: Call, action: str, path: str) -> Permission:
    name = f"repository/{call.arguments['repository']}"
    return Permission(action, permissions.resource("fs", f"{name}/{path}" if path else name))


ARN: Final = "arn:lakefs:fs:::"
REPO_ARN: Final = ARN + "repository/{repository}"
BRANCH_ARN: Final = REPO_ARN + "/branch/{branch}"
OBJECT_ARN: Final = REPO_ARN + "/object/{path}"
