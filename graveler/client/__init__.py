"""What Graveler does beyond lakeFS, from Python: stands beside the unmodified `lakefs` client."""

from graveler.client.session import Session, connect, connect_as_lakectl

__all__ = ["Session", "connect", "connect_as_lakectl"]
