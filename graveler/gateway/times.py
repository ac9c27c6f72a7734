"""Times as answers write them.  Whole seconds, as in `Last-Modified`: clients compare the two.
Pure."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from graveler.limits import SECOND_NS

_TEXTS_MAX: Final = 4_096


def timestamp(nanoseconds: int) -> str:
    """A time in the format of answers in XML."""
    return _text(nanoseconds // SECOND_NS)


@lru_cache(_TEXTS_MAX)  # the objects of a listing were often written in few seconds
def _text(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.000Z"
