"""Finds the region of each bucket.

A signature names the region of the bucket.  S3 names it in the answer to an unsigned request,
whatever its status; each process asks once per bucket.  While S3 does not answer, the session's
region is used.  A configured endpoint other than AWS is never asked.
"""

import threading
from collections.abc import Callable

from graveler.aws import AwsSession
from graveler.block.s3_places import Places

Ask = Callable[[str], str]  # bucket's origin -> the region that it names; empty: none


class Regions:
    """The regions of buckets.  Thread-safe; sends nothing before the first call."""

    def __init__(self, session: AwsSession, places: Places, ask: Ask) -> None:
        self._session = session
        self._places = places
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}

    def of(self, bucket: str) -> str:
        """The region of a bucket.  `Unavailable` if the session has no region.  Cost: one request
        until S3 has answered once."""
        usual = self._session.region()
        if self._session.settings.endpoint_url:
            return usual
        known = self._known.get(bucket)
        if known is not None:
            return known
        region = self._ask(self._places.origin(bucket, usual))
        if not region:
            return usual
        with self._lock:
            self._known[bucket] = region
        return region
