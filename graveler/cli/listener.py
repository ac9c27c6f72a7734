"""Taking the port before anything else happens, so that a taken one is told in one line.

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
    """A socket bound to the address; it takes connections once the server listens on it.

    Errors: `Conflict` for a port in use, `Refused`, `Invalid` for an address of another machine.
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
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        # Two may bind one port as long as nobody listens: listen now, answer when ready.
        made.listen(1_024)
    except OSError as error:
        made.close()
        refusal, remedy = _REMEDIES.get(error.errno or 0, (Unavailable, str(error.strerror)))
        raise refusal(f"cannot listen: {remedy}: listen={where}") from error
    return made


def bound(made: socket.socket, listen: Listen) -> Listen:
    """The address with the port that was really taken."""
    return Listen(listen.host, made.getsockname()[1])
