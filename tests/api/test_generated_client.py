"""The generated client of lakeFS (`lakefs_sdk`) makes every request, and reads every answer.

Each operation of the client is called with the arguments of a request that succeeds
(fault_cases.py).  The client checks them, builds the request, and makes its own types of the
answer.  Only its connections are exchanged: they lead into the application.
"""

import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import parse_qsl, unquote

import lakefs_sdk
import pytest
from urllib3 import HTTPResponse
from urllib3.filepost import encode_multipart_formdata

from simulator.service.described import described
from tests.api.fault_cases import CASES, Case
from tests.api.fault_lake import lake
from tests.api.fault_world import Running, Surroundings, World, sound
from tests.asgi import Ask
from tests.docs.test_compatibility import operations, rows, shape

HOST = "http://lake/api/v1"
OPERATIONS = operations()
OPEN = {row.name for row in rows()}
NAMES = sorted(set(OPERATIONS) - OPEN)
_NAMES_OF = {"bytearray": "bytes", "List": "list", "Dict": "dict", "object": "dict"}


class Method(NamedTuple):
    """A method of the client: what its arguments are called in a request, and what it answers."""

    call: Callable[..., Any]
    path: str
    path_names: Mapping[str, str]
    query_names: Mapping[str, str]
    header_names: Mapping[str, str]
    body: str
    file: str
    answers: Mapping[int, str]

    def kind(self, argument: str) -> Any:
        return inspect.signature(self.call).parameters[argument].annotation


class Connections:
    """What the client takes for a pool of connections."""

    def __init__(self, running: Running) -> None:
        self.running = running

    def request(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        fields: Any = None,
        headers: Mapping[str, str],
        **_options: Any,
    ) -> HTTPResponse:
        assert url.startswith(HOST)
        given = dict(headers)
        if fields:
            body, given["Content-Type"] = encode_multipart_formdata(fields)
        pieces = () if body is None else (body.encode() if isinstance(body, str) else body,)
        heard = self.running.send(Ask(method, url.removeprefix(HOST), pieces, given))
        return HTTPResponse(BytesIO(heard.body), heard.headers, heard.status)


@pytest.fixture(scope="module")
def template(around: Surroundings) -> Callable[[Case], World]:
    full, empty = lake(around), World(around)
    return lambda case: empty if case.empty else full


@cache
def _names() -> Mapping[tuple[str, str], str]:
    """The names of the operations, as declared, by method and path."""
    return {(each.method, shape(each.path)): each.operation for each in described()}


def _method(client: Any, name: str) -> Method:
    for api in vars(lakefs_sdk).values():
        if inspect.isclass(api) and hasattr(api, name + "_with_http_info"):
            text = inspect.getsource(getattr(api, name + "_with_http_info"))
            break

    def named(pattern: str) -> dict[str, str]:
        found: list[tuple[str, str]] = re.findall(pattern, text)
        return dict(found)

    return Method(
        getattr(api(client), name + "_with_http_info"),
        OPERATIONS[name][1],
        named(r"_path_params\['(\w+)'\] = _params\['(\w+)'\]"),
        named(r"_query_params\.append\(\('(\w+)', _params\['(\w+)'\]"),
        named(r"_header_params\['([\w-]+)'\] = _params\['(\w+)'\]"),
        next(iter(re.findall(r"_body_params = _params\['(\w+)'\]", text)), ""),
        next(iter(re.findall(r"_files\['content'\] = _params\['(\w+)'\]", text)), ""),
        {int(status): kind for status, kind in re.findall(r"'(2\d\d)': \"([\w\[\], ]+)\"", text)},
    )


def _arguments(method: Method, ask: Ask, scratch: Path) -> dict[str, Any]:
    """The arguments that make this request.  Raises `KeyError` if the client cannot make it."""
    path, _, query = ask.target.partition("?")
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", method.path)
    found = re.fullmatch(pattern, path)
    assert found, (pattern, path)
    given: dict[str, Any] = {}
    for name, value in found.groupdict().items():
        argument = method.path_names[name]
        given[argument] = _typed(method.kind(argument), unquote(value), [])
    for name, value in parse_qsl(query, keep_blank_values=True):
        argument = method.query_names[name]
        given[argument] = _typed(method.kind(argument), value, given.get(argument, []))
    for name, value in ask.headers.items():
        if name != "Content-Type":
            given[method.header_names[name]] = value
    body = b"".join(ask.body)
    if body and method.body:
        given[method.body] = _made(method.kind(method.body), json.loads(body))
    elif body:
        (scratch / "body").write_bytes(body)
        given[method.file] = str(scratch / "body")
    return given


def _typed(kind: Any, value: str, before: list[str]) -> Any:
    text = str(kind)
    if "List" in text:
        return [*before, value]
    if "Bool" in text:
        return value == "true"
    return int(value) if "Int" in text else value


def _made(kind: Any, value: Any) -> Any:
    """The body as a type of the client.  Raises `KeyError` if the type lacks a field of it."""
    if isinstance(value, list):
        return [_made(kind.item_type, each) for each in value]
    model = next(each for each in (kind, *get_args(kind)) if hasattr(each, "from_dict"))
    known = {field.alias for field in model.__fields__.values()}
    if not set(value) <= known and not hasattr(model, "additional_properties"):
        raise KeyError(*set(value) - known)
    return model.from_dict(value)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_has_the_type_that_the_client_expects(
    name: str, template: Callable[[Case], World], tmp_path: Path
) -> None:
    verb, path = OPERATIONS[name]
    declared, made = _names()[verb, shape(path)], 0
    for case in (case for case in CASES if case.operation == declared):
        world = template(case).copy()
        client = lakefs_sdk.ApiClient(lakefs_sdk.Configuration(host=HOST))
        client.rest_client.pool_manager = Connections(world.serve(sound()))
        method = _method(client, name)
        try:
            arguments = _arguments(method, case.ask(world), tmp_path)
        except KeyError:
            continue  # a field or a parameter that lakeFS lacks
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            answer = method.call(**arguments)
        made += 1
        expected = method.answers.get(answer.status_code, "NoneType")
        assert answer.status_code == case.status
        assert type(answer.data).__name__ == _NAMES_OF.get(expected.partition("[")[0], expected)
    assert made, "no request of the cases is one that the client can make"


def test_few_operations_are_open() -> None:
    """Control lists of groups, the login by OIDC of a server, and collections by lakeFS's Spark
    client are not built."""
    collections = {name for name in OPERATIONS if name.startswith("prepare_garbage_collection_")}
    assert {"get_group_acl", "set_group_acl", "oauth_callback", *collections} == OPEN
