"""A Python client of the API, for what the commands do and for what Graveler adds to lakeFS.

Use it beside the unmodified `lakefs` client.  `session` connects and sends calls; every other
module has the calls of one subject.
"""

from graveler.client.session import Session, connect, connect_as_lakectl

__all__ = ["Session", "connect", "connect_as_lakectl"]
