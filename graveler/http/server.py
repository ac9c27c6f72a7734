"""The HTTP/1.1 server: one process that serves an ASGI application until SIGINT or SIGTERM.

A stop finishes requests in flight.  Connections are those of protocol.py.
"""

import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, cast

import uvicorn

from graveler.core.records import ABSENT, Absent
from graveler.http.connections import Admission, ConnectionLimits
from graveler.http.dispatch import Application
from graveler.http.front import DIRECT, Front
from graveler.http.protocol import Connection
from graveler.http.tls import Certificate, Listener

_STOP_SECONDS: Final = 20
_BACKLOG: Final = 1_024
BOUNDS: Final = ConnectionLimits()


class Server(uvicorn.Server):
    """A server that calls `on_ready` with its port when it listens."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[int], None],
        certificate: Certificate | Literal[Absent.ABSENT],
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._certificate = certificate

    async def startup(self, sockets: Any = None) -> None:
        if self._certificate is ABSENT:
            await super().startup(sockets)
        else:
            await super().startup([])
            config = self.config
            protocol: Any = config.http_protocol_class
            make_connection = partial(
                protocol,
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            self.servers = [
                cast("Any", Listener(each, self._certificate, make_connection))
                for each in sockets or [socket.create_server((config.host, config.port))]
            ]
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
    certificate: Certificate | Literal[Absent.ABSENT] = ABSENT,
) -> Server:
    """A server for `application`.

    `run()` blocks until SIGINT or SIGTERM.  `on_ready` gets the port.  `port` 0 means any free
    port.  `certificate`: clients must use TLS.
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
    return Server(config, on_ready, certificate)
