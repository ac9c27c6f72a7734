"""What the server takes of uvicorn beside its documented interface: a test names what is gone."""

import asyncio
import inspect

import pytest
import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

# What `Connection` and `Cycle` of graveler/http/protocol.py read, set, call or replace.
_OF_CONNECTION = (
    *("access_log", "access_logger", "app", "connections", "cycle", "flow", "headers", "logger"),
    *("loop", "parser", "scope", "server_state", "tasks", "transport", "url"),
)
_OF_CYCLE = (
    *("body", "default_headers", "disconnected", "expected_content_length", "flow", "keep_alive"),
    *("message_event", "more_body", "on_response", "response_complete", "response_started"),
    *("scope", "transport", "waiting_for_100_continue"),
)
_METHODS = {
    HttpToolsProtocol: (
        *("connection_lost", "connection_made", "data_received", "eof_received", "on_body"),
        *("on_header", "on_headers_complete", "on_message_begin", "on_message_complete"),
        *("on_response_complete", "on_url", "pause_writing", "resume_writing", "shutdown"),
        *("_start_asgi_task", "_unset_keepalive_if_required"),
    ),
    RequestResponseCycle: ("receive", "run_asgi", "send", "send_500_response"),
    uvicorn.Server: ("run", "shutdown", "startup"),
    FlowControl: ("drain", "pause_reading", "resume_reading", "pause_writing", "resume_writing"),
}
_OF_A_STATE = ("connections", "default_headers", "tasks", "total_requests")
_OF_A_NEW_CYCLE = (
    *("scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers"),
    *("message_event", "expect_100_continue", "keep_alive", "on_response"),
)


async def _application(_scope: object, _receive: object, _send: object) -> None: ...


def _connection() -> HttpToolsProtocol:
    async def made() -> HttpToolsProtocol:
        config = uvicorn.Config(_application, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
        return HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())

    return asyncio.run(made())


def _cycle() -> RequestResponseCycle:
    given = dict.fromkeys(_OF_A_NEW_CYCLE)
    return RequestResponseCycle(**{**given, "scope": {"method": "GET"}})  # type: ignore[arg-type]


def test_a_connection_and_a_cycle_have_what_the_server_uses() -> None:
    connection, cycle = _connection(), _cycle()
    connection.on_message_begin()
    gone = [f"HttpToolsProtocol.{name}" for name in _OF_CONNECTION
            if not hasattr(connection, name)]  # fmt: skip
    gone += [f"RequestResponseCycle.{name}" for name in _OF_CYCLE if not hasattr(cycle, name)]
    gone += [f"ServerState.{name}" for name in _OF_A_STATE if not hasattr(ServerState(), name)]
    gone += [f"{kind.__name__}.{name}" for kind, names in _METHODS.items() for name in names
             if not callable(getattr(kind, name, None))]  # fmt: skip
    assert not gone


def test_a_cycle_is_made_of_what_the_server_gives() -> None:
    given = tuple(inspect.signature(RequestResponseCycle).parameters)
    assert sorted(given) == sorted(_OF_A_NEW_CYCLE)


@pytest.mark.parametrize("status", [200, 206, 304, 404, 500, 507])
def test_the_beginning_of_an_answer_is_known(status: int) -> None:
    assert httptools_impl.STATUS_LINE[status].startswith(b"HTTP/1.1 %d " % status)
    assert httptools_impl.HEADER_RE.search(b"a b") and not httptools_impl.HEADER_RE.search(b"a-b")
    assert HIGH_WATER_LIMIT > 0
