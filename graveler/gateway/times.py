"""Times as answers write them.  Whole seconds, as in `Last-Modified`: clients compare the two.
Pure."""

from datetime import UTC, datetime

from graveler.limits import SECOND_NS


def timestamp(nanoseconds: int) -> str:
    """A time in the format of answers in XML."""
    moment = datetime.fromtimestamp(nanoseconds // SECOND_NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"
