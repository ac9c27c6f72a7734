"""The policies and groups that every lake has, as the documentation of lakeFS names them.

    Admins       everything
    SuperUsers   all data; own credentials; may see hooks and retention
    Developers   read and write data, branches, tags, commits; otherwise as SuperUsers
    Viewers      read data; own credentials

They are ordinary records: an administrator may change or delete them.  Pure data.
"""

from collections.abc import Mapping
from typing import Any, Final

ADMINS: Final = "Admins"


def _allow(*names: str, resource: str = "*") -> dict[str, Any]:
    return {"effect": "allow", "action": list(names), "resource": resource}


POLICIES: Final[Mapping[str, list[dict[str, Any]]]] = {
    "FSFullAccess": [_allow("fs:*")],
    "FSReadAll": [_allow("fs:List*", "fs:Read*")],
    "FSReadWriteAll": [
        _allow(
            "fs:Read*",
            "fs:List*",
            "fs:WriteObject",
            "fs:DeleteObject",
            "fs:RevertBranch",
            "fs:CreateBranch",
            "fs:CreateTag",
            "fs:DeleteBranch",
            "fs:DeleteTag",
            "fs:CreateCommit",
        )
    ],
    "AuthFullAccess": [_allow("auth:*")],
    "AuthManageOwnCredentials": [
        _allow(
            "auth:CreateCredentials",
            "auth:DeleteCredentials",
            "auth:ListCredentials",
            "auth:ReadCredentials",
            resource="arn:lakefs:auth:::user/${user}",
        )
    ],
    "RepoManagementFullAccess": [
        _allow("ci:*"),
        _allow("retention:*"),
        _allow("branches:*"),
        _allow("pr:*"),
    ],
    "RepoManagementReadAll": [
        _allow("ci:Read*"),
        _allow("retention:Get*"),
        _allow("branches:Get*"),
        _allow("pr:Read*", "pr:List*"),
    ],
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    ADMINS: ("FSFullAccess", "AuthFullAccess", "RepoManagementFullAccess"),
    "SuperUsers": ("FSFullAccess", "AuthManageOwnCredentials", "RepoManagementReadAll"),
    "Developers": ("FSReadWriteAll", "AuthManageOwnCredentials", "RepoManagementReadAll"),
    "Viewers": ("FSReadAll", "AuthManageOwnCredentials"),
}
