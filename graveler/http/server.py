"""The HTTP/1.1 server: one process that serves an ASGI application until SIGINT or SIGTERM.

A stop finishes requests in flight.  Connections are those of protocol.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn

from graveler.http.connections import Admission, ConnectionLimits
from graveler.http.dispatch import Application
from graveler.http.front import DIRECT, Front
from graveler.http.protocol import Connection

_STOP_SECONDS: Final = 20
_BACKLOG: Final = 1_024
BOUNDS: Final = ConnectionLimits()


class Server(uvicorn.Server):
    """A server that calls `on_ready` with its port when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready(self.servers[0].sockets[0].getsockname()[1])


def make_server(
    application: Application,
    host: str,
    port: int,
    on_ready: Callable[[int], None],
    *,
    bounds: ConnectionLimits = BOUNDS,
    front: Front = DIRECT,
) -> Server:
    """A server for `application`.

    `run()` blocks until SIGINT or SIGTERM.  `on_ready` gets the port.  `port` 0 means any free
    port.
    """
    protocol: Any = partial(Connection, admission=Admission(bounds, front))
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=protocol,
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        backlog=_BACKLOG,
        timeout_keep_alive=bounds.idle_seconds,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return Server(config, on_ready)
