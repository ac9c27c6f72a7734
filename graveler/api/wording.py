"""The messages that clients of this API compare, where they differ from our own.

Some are the same for every operation and recognised by how our text begins; others belong to one
operation and one kind of error.  Templates name path parameters of the route.  Pure; for errors.py.
"""

from typing import Final

from graveler.errors import AlreadyExists, DirtyBranch, GravelerError, NoChanges, NotFound

_INVALID: Final = "invalid value: validation error"

BEGINNINGS: Final = (
    ("read-only repository", "read-only repository"),
    ("repository name invalid", f"argument repository: repository id: {_INVALID}"),
    (
        "branch name invalid",
        f"argument branch: branch id: {_INVALID}: branch id must consist of letters, digits, "
        "underscores and dashes, and cannot start with a dash",
    ),
    ("tag name invalid", f"argument tagID: tag id: {_INVALID}"),
)

BY_OPERATION: Final[dict[tuple[str, type[GravelerError]], str]] = {
    ("createRepository", AlreadyExists): "error creating repository: not unique",
    ("createBranch", AlreadyExists): "branch already exists: not unique",
    ("createTag", AlreadyExists): "tag already exists: not unique",
    ("getBranch", NotFound): "branch not found",
    ("deleteBranch", NotFound): "branch not found",
    ("diffBranch", NotFound): "branch not found",
    ("resetBranch", NotFound): "branch not found",
    ("commit", NotFound): "branch not found",
    ("commit", NoChanges): "commit: no changes",
    ("deleteObject", NotFound): "branch not found",
    ("deleteObjects", NotFound): "branch not found",
    ("getCommit", NotFound): "commit not found",
    ("getTag", NotFound): "tag not found",
    ("deleteTag", NotFound): "tag not found",
    ("createTag", NotFound): "not found",
    ("logCommits", NotFound): "ref: not found",
    ("statObject", NotFound): "not found",
    ("getObject", NotFound): "not found",
    ("headObject", NotFound): "not found",
    ("listObjects", NotFound): "not found",
    ("copyObject", NotFound): "not found",
    ("mergeIntoBranch", NoChanges): "update branch {destinationBranch}: no changes",
    ("mergeIntoBranch", DirtyBranch): "uncommitted changes (dirty branch)",
    ("revertBranch", NoChanges): "update branch: no changes",
    ("hardResetBranch", DirtyBranch): "{branch}: uncommitted changes (dirty branch)",
}


def wording(error: GravelerError | Exception, operation: str, arguments: dict[str, str]) -> str:
    """The text for the client."""
    own = str(error)
    for beginning, text in BEGINNINGS:
        if own.startswith(beginning):
            return text
    template = BY_OPERATION.get((operation, type(error)))  # type: ignore[arg-type]
    return own if template is None else template.format_map(arguments)
