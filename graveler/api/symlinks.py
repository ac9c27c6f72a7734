"""The operation that exports symlink files."""

from typing import Annotated

from msgspec import Meta

from graveler.api import answers
from graveler.api.answers import Answer
from graveler.api.operation import REPO, REPO_ARN, Query, Runs, operation
from graveler.api.service import Call
from graveler.api.shapes import StorageURI
from graveler.auth.permissions import Permission
from graveler.engine.objects import read
from graveler.errors import Refused, Unsupported


class SymlinkQuery(Query, frozen=True):
    """What to export."""

    location: Annotated[str, Meta(description="only objects whose paths begin with this")] = ""


@operation(
    "createSymlinkFile",
    "POST",
    REPO + "/refs/{branch}/symlink",
    tag="internal",
    permissions=(
        Permission("fs:ListObjects", REPO_ARN),
        Permission("fs:WriteObject", REPO_ARN + "/object/{branch}"),
    ),
    answers={201: StorageURI},
    errors=(Refused, Unsupported),
    runs=Runs.POOL,
)
def create_symlink_file(call: Call, query: SymlinkQuery) -> Answer:
    """Write the addresses of the objects of each folder into a file, for Hive and the like."""
    place = read.export_symlinks(call.repo, call.arguments["branch"], query.location)
    return answers.json(StorageURI(place), 201)
