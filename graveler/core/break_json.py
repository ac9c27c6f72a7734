"""Converts break parameters to and from JSON, for the API, its clients and the orders of jobs."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from graveler.core.errors import Invalid
from graveler.core.records import BreakParameters


def encoded(breaks: BreakParameters) -> dict[str, Any]:
    """The JSON form of `breaks`; the salt is in Base64."""
    return {**asdict(breaks), "salt": b64encode(breaks.salt).decode()}


def parsed(fields: Mapping[str, Any]) -> BreakParameters:
    """The parameters in the JSON form that `encoded` makes.  Raises `Invalid` for anything else."""
    try:
        sizes = (fields["min_size"], fields["max_size"], fields["raggedness"])
        return BreakParameters(*sizes, b64decode(fields["salt"], validate=True))
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(
            "break parameters invalid: they must have two sizes, raggedness, and a salt in Base64"
        ) from error
