"""The closed set of actions: what a permission can name.

The names are those of lakeFS.  Four are added for operations that lakeFS does not have or does not
guard: `fs:DumpRefs`, `fs:RestoreRefs`, `retention:CollectGarbage` and `auth:ReadAudit`.

A pattern of actions is a name, `*`, or a beginning of names that ends in `*`: `fs:*`, `fs:Read*`.
Pure.  For policies.py and api/.
"""

from functools import lru_cache
from typing import Final

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
