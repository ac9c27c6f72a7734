"""Names a server and its storage, for readers of ranges.  Needs neither pyarrow nor numpy."""

from dataclasses import dataclass

from graveler.client.session import Session


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and where this process finds the objects of its repositories.

    `storage`: `local:FOLDER` (the folder `objects` in the served store) or `s3:BUCKET,BUCKET`,
    which is read with AWS's own chain of credentials.
    """

    session: Session
    storage: str
