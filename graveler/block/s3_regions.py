"""In which region a bucket is: S3 says so to whoever asks, signed or not.

A signature names the region, and a bucket answers under a host of its region.  Buckets of a
deployment may be anywhere, so each is asked once for a process, without a signature: S3 names the
region in the answer whatever its status.  While S3 does not answer, the session's region is
assumed and the bucket is asked again.  An endpoint that is not Amazon's is never asked.  For the S3
driver.
"""

import threading
from collections.abc import Callable

from graveler.aws import AwsSession
from graveler.block.s3_places import Places

Ask = Callable[[str], str]  # the region that the bucket's origin names; empty: none


class Regions:
    """The regions of buckets.  Thread-safe; sends nothing before it is asked."""

    def __init__(self, session: AwsSession, places: Places, ask: Ask) -> None:
        self._session = session
        self._places = places
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}

    def of(self, bucket: str) -> str:
        """The region of a bucket.  `Unavailable` if none is configured.  Cost: one request, the
        first time."""
        usual = self._session.region()
        if self._session.settings.endpoint_url:
            return usual
        known = self._known.get(bucket)
        if known is not None:
            return known
        found = self._ask(self._places.origin(bucket, usual))
        if not found:
            return usual
        with self._lock:
            self._known[bucket] = found
        return found
