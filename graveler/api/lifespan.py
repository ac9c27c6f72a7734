"""The start and the stop of an application: the lifespan protocol of ASGI.

    application = with_lifespan(requests, lambda: life)

The server sends two messages to one call of the application: when it starts and when it stops.
Between them, `life` is entered.  If `life` raises, the server gets the traceback and logs it: it
does not listen if the start failed.  Used by the applications of app.py and gateway/app.py.
"""

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager

from graveler.api.dispatch import Scope
from graveler.api.feed import Receive
from graveler.api.responses import Send
from graveler.api.start import Application

Life = Callable[[], AbstractContextManager[None]]


def with_lifespan(requests: Application, life: Life) -> Application:
    """The application that answers requests with `requests`.  At its start it enters `life()`, and
    at its stop it leaves it, both on the thread of the event loop."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(life, receive, send)
        else:
            await requests(scope, receive, send)

    return application


async def _live(life: Life, receive: Receive, send: Send) -> None:
    step = "startup"
    try:
        await receive()
        with life():
            await send({"type": "lifespan.startup.complete"})
            step = "shutdown"
            await receive()
    except BaseException:
        await send({"type": f"lifespan.{step}.failed", "message": traceback.format_exc()})
        raise
    await send({"type": "lifespan.shutdown.complete"})
