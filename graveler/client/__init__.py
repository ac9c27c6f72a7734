"""A Python client for the features that Graveler adds to lakeFS.

Use it beside the unmodified `lakefs` client.

session           connects to a server and sends requests; start here
bulk              bulk jobs, staged rows and roots of a collection, for a cluster
collections       garbage collections, by the server or by a cluster
event_rules       rules that stage objects as they arrive in a bucket
break_parameters  where the ranges of a repository end
"""

from graveler.client.session import Session, connect, connect_as_lakectl

__all__ = ["Session", "connect", "connect_as_lakectl"]
