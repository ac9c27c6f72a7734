"""Texts that clients compare, and the limits of commit messages and metadata.

Used by every verb that makes commits or stages entries.
"""

from collections.abc import Mapping

from graveler import limits
from graveler.errors import Invalid

NO_CHANGES = "commit: no changes"
# Keys of the commit's metadata.
STRATEGY_KEY = ".lakefs.merge.strategy"
RESOLUTIONS_KEY = ".graveler.merge.resolutions"


def check_message(message: str) -> None:
    """Raises `Invalid` for a message that is too long or is not valid Unicode."""
    if _length(message, "message") > limits.message_length_bytes_max:
        raise Invalid(f"message is too long: at most {limits.message_length_bytes_max} bytes")


def check_metadata(
    metadata: Mapping[str, str],
    field: str = "metadata",
    length_bytes_max: int = limits.metadata_length_bytes_max,
) -> None:
    """Raises `Invalid` for metadata with too many pairs, an empty key, too many bytes in all keys
    and values, or text that is not valid Unicode.  `field` names the metadata in the error text."""
    if not metadata:
        return
    if len(metadata) > limits.metadata_pairs_max:
        raise Invalid(f"{field} has too many pairs: at most {limits.metadata_pairs_max}")
    if "" in metadata:
        raise Invalid(f"{field} has an empty key")
    length = sum(_length(key, field) + _length(value, field) for key, value in metadata.items())
    if length > length_bytes_max:
        raise Invalid(f"{field} is too large: at most {length_bytes_max} bytes: length={length}")


def _length(text: str, field: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{field} is not valid Unicode") from error
