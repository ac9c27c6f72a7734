"""Operations on the break parameters, which decide where ranges of a repository end."""

from typing import Annotated, Final

from msgspec import Meta, structs

from graveler import break_json, limits
from graveler.api import answers
from graveler.api.answers import Answer, Shape
from graveler.api.field_types import Bytes64, Integer
from graveler.api.operation import REPO, REPO_ARN, Body, Runs, operation
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.engine.repositories import repository
from graveler.errors import PreconditionFailed
from graveler.records import BreakParameters

_PATH: Final = REPO + "/settings/breaks"


def _size(least: int, most: int) -> Meta:
    return Meta(ge=least, le=most, extra_json_schema={"format": "int64"})


class Breaks(Shape, frozen=True):
    """Where the ranges of a repository end."""

    min_size: Integer
    max_size: Integer
    raggedness: Integer
    salt: Bytes64


class NewBreaks(Body, frozen=True):
    """Where new ranges end."""

    min_size: Annotated[int, _size(0, limits.range_size_bytes_max)]
    max_size: Annotated[int, _size(1, limits.range_size_bytes_max)]
    raggedness: Annotated[int, _size(1, limits.range_raggedness_max)]
    salt: Annotated[str, Meta(max_length=limits.range_salt_bytes_max * 2, description="Base64")]


class BreakParametersSet(Body, frozen=True):
    """New break parameters, and the present ones."""

    expected: NewBreaks
    breaks: NewBreaks
    force: bool = False


def shape(breaks: BreakParameters) -> Breaks:
    return Breaks(**break_json.told(breaks))


def parsed(body: NewBreaks) -> BreakParameters:
    """Raises `Invalid` for a salt that is not Base64."""
    return break_json.parsed(structs.asdict(body))


@operation(
    "getBreakParameters",
    "GET",
    _PATH,
    tag="repositories",
    permissions=(Permission("fs:ReadRepository", REPO_ARN),),
    answers={200: Breaks},
    runs=Runs.POINT,
)
def get_break_parameters(call: Call) -> Answer:
    """Get the break parameters."""
    return answers.json(shape(repository.read_breaks(call.repo)))


@operation(
    "setBreakParameters",
    "PUT",
    _PATH,
    tag="repositories",
    permissions=(Permission("fs:UpdateRepository", REPO_ARN),),
    answers={200: Breaks},
    errors=(PreconditionFailed,),
    runs=Runs.POOL,
)
def set_break_parameters(call: Call, body: BreakParametersSet) -> Answer:
    """Change the break parameters of new ranges; 412: the present ones differ from `expected`."""
    new = parsed(body.breaks)
    repository.swap_breaks(call.repo, parsed(body.expected), new, force=body.force)
    return answers.json(shape(new))
