"""What permissions name: a closed set of actions, and resources by ARN.  Pure.

The names of actions are those of lakeFS.  Four are added for operations that lakeFS does not have
or does not guard: `fs:DumpRefs`, `fs:RestoreRefs`, `retention:CollectGarbage`, `auth:ReadAudit`.  A
pattern of actions is a name, `*`, or a beginning of names that ends in `*`: `fs:*`, `fs:Read*`.

Resources are `arn:lakefs:<service>:<region>:<account>:<resource>`, split at the first five colons.
All parts but the last are compared exactly; in a pattern, the last is a glob (core/globs.py).
`*` alone, as a pattern, is every resource; as a name, it is the resource of operations that concern
no single one, and only the pattern `*` matches it.  `${user}` in the last part of a pattern stands
for the caller's id, which contains none of `*?${}:/`, so an id is never read as a pattern.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from graveler.core.errors import Invalid
from graveler.core.globs import Glob, glob


class Permission(NamedTuple):
    """An action on a resource.

    - `action`: its name, such as `fs:ReadObject`.
    - `resource`: an ARN, such as `arn:lakefs:fs:::repository/lake/object/a/b`.  In the declaration
      of an operation it is a template (http/permissions.py).
    - `below`: the action concerns every resource whose name begins with `resource`.
    """

    action: str
    resource: str
    below: bool = False

    @property
    def pattern(self) -> str:
        """The resource as a policy names it: with a star for what is below."""
        return f"{self.resource}*" if self.below else self.resource


# ---- actions -------------------------------------------------------------------------------------

ACTIONS: Final = frozenset(
    {
        # repositories and what they hold
        "fs:ListRepositories",
        "fs:ReadRepository",
        "fs:CreateRepository",
        "fs:UpdateRepository",
        "fs:DeleteRepository",
        "fs:AttachStorageNamespace",
        "fs:ImportFromStorage",
        "fs:ImportCancel",
        "fs:ReadObject",
        "fs:WriteObject",
        "fs:DeleteObject",
        "fs:ListObjects",
        "fs:CreateCommit",
        "fs:CreateMetaRange",
        "fs:ReadCommit",
        "fs:ListCommits",
        "fs:CreateBranch",
        "fs:DeleteBranch",
        "fs:ReadBranch",
        "fs:RevertBranch",
        "fs:ListBranches",
        "fs:CreateTag",
        "fs:DeleteTag",
        "fs:ReadTag",
        "fs:ListTags",
        "fs:ReadConfig",
        "fs:DumpRefs",
        "fs:RestoreRefs",
        # users, groups, policies, credentials
        "auth:ReadUser",
        "auth:CreateUser",
        "auth:DeleteUser",
        "auth:ListUsers",
        "auth:ReadGroup",
        "auth:CreateGroup",
        "auth:DeleteGroup",
        "auth:ListGroups",
        "auth:AddGroupMember",
        "auth:RemoveGroupMember",
        "auth:ReadPolicy",
        "auth:CreatePolicy",
        "auth:UpdatePolicy",
        "auth:DeletePolicy",
        "auth:ListPolicies",
        "auth:AttachPolicy",
        "auth:DetachPolicy",
        "auth:ReadCredentials",
        "auth:CreateCredentials",
        "auth:DeleteCredentials",
        "auth:ListCredentials",
        "auth:CreateUserExternalPrincipal",
        "auth:DeleteUserExternalPrincipal",
        "auth:ReadExternalPrincipal",
        "auth:ReadAudit",
        # hooks, retention, protection, pull requests
        "ci:ReadAction",
        "retention:GetGarbageCollectionRules",
        "retention:SetGarbageCollectionRules",
        "retention:PrepareGarbageCollectionCommits",
        "retention:PrepareGarbageCollectionUncommitted",
        "retention:CollectGarbage",
        "branches:GetBranchProtectionRules",
        "branches:SetBranchProtectionRules",
        "pr:ReadPullRequest",
        "pr:WritePullRequest",
        "pr:ListPullRequests",
    }
)


@lru_cache(maxsize=512)
def named(pattern: str) -> frozenset[str]:
    """The actions that a pattern names; empty if there is none."""
    if pattern.endswith("*"):
        return frozenset(action for action in ACTIONS if action.startswith(pattern[:-1]))
    return frozenset((pattern,)) & ACTIONS


# ---- arns ----------------------------------------------------------------------------------------

EVERYTHING: Final = "*"
USER: Final = "${user}"
_FIELDS: Final = 6
_ACCOUNT: Final = ("arn", "lakefs")


class Pattern(NamedTuple):
    """The resources of a statement.

    `head`: the parts before the last, with their colons; empty for `*`.  `start`: what every name
    begins with that is one of the resources.
    """

    head: str
    resource: Glob
    start: str

    def matches(self, name: str) -> bool:
        """Whether `name` is one of the resources."""
        if not name.startswith(self.start):  # most patterns of most callers
            return False
        return not self.head or self.resource.matches(name[len(self.head) :])

    def covers(self, head: str) -> bool:
        """Whether all names that begin with `head` are among the resources."""
        return self._has(head, self.resource.covers)

    def reaches(self, head: str) -> bool:
        """Whether a name that begins with `head` is one of the resources."""
        return self._has(head, self.resource.reaches)

    def _has(self, name: str, is_right: Callable[[str], bool]) -> bool:
        if not self.head:
            return True
        return name.startswith(self.head) and is_right(name[len(self.head) :])


def resource(service: str, path: str) -> str:
    """The name of a resource of this lake."""
    return f"arn:lakefs:{service}:::{path}"


def pattern(text: str, user: str) -> Pattern:
    """The pattern that `text` is for `user`.  Raises `Invalid`."""
    return _pattern(text, user if USER in text else "")


@lru_cache(maxsize=8_192)
def _pattern(text: str, user: str) -> Pattern:
    if text == EVERYTHING:
        return Pattern("", glob("*"), "")
    parts = text.split(":", _FIELDS - 1)
    if len(parts) != _FIELDS or tuple(parts[:2]) != _ACCOUNT or not parts[-1]:
        raise Invalid(
            "resource invalid: it must be * or arn:lakefs:<service>:<region>:<account>:<resource>: "
            f"resource={text[:200]!r}"
        )
    if set("".join(parts[:-1])) & set("*?${}"):
        raise Invalid(
            f"resource invalid: only its last part may have wildcards: resource={text[:200]!r}"
        )
    head, names = text[: -len(parts[-1])], glob(parts[-1].replace(USER, user))
    return Pattern(head, names, head + names.words[0].partition("?")[0])
