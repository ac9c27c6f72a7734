"""Binds the port before anything else starts, so that a port in use gives a one-line error.

For this folder.
"""

import errno
import socket

from graveler.cli.options import Listen
from graveler.errors import Conflict, Invalid, Refused, Unavailable

_REMEDIES = {
    errno.EADDRINUSE: (Conflict, "the port is in use; stop who uses it or choose another"),
    errno.EACCES: (Refused, "the port is not allowed to this user; choose one above 1023"),
    errno.EADDRNOTAVAIL: (Invalid, "this machine has no such address; try 127.0.0.1"),
}


def bind(listen: Listen) -> socket.socket:
    """A socket that is bound to the address and listens.  Connections wait until the server accepts
    them.

    Errors: `Conflict` for a port in use, `Refused` for a port that this user may not use, `Invalid`
    for an unknown host or an address of another machine, `Unavailable`.
    """
    where = listen.authority
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise Invalid(
            f"listen address invalid: the host has no address; try 127.0.0.1: listen={where}"
        ) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Two processes may bind one port while neither listens.  So listen now, answer when ready.
        listening.listen(1_024)
    except OSError as error:
        listening.close()
        refusal, remedy = _REMEDIES.get(error.errno or 0, (Unavailable, str(error.strerror)))
        raise refusal(f"cannot listen: {remedy}: listen={where}") from error
    return listening


def bound(listening: socket.socket, listen: Listen) -> Listen:
    """The address with the port that the socket is bound to."""
    return Listen(listen.host, listening.getsockname()[1])
