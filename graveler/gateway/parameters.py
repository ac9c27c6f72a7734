"""Values of query parameters.  Pure."""

from collections.abc import Mapping

from graveler.gateway.errors import S3Error


def count_of(parameters: Mapping[str, str], name: str, greatest: int, *, least: int = 0) -> int:
    """A number of items; more than `greatest` means `greatest`, which is also the default.  Raises
    `S3Error` for what is no number, and for one below `least`."""
    text = parameters.get(name, "")
    if not text:
        return greatest
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(2**31)):
        raise S3Error("InvalidArgument", f"Argument {name} must be an integer from {least} on")
    if int(text) < least:
        raise S3Error("InvalidArgument", f"Argument {name} must be at least {least}")
    return min(int(text), greatest)
