"""The script of a user that has every verb; `scripts/checks.sh` checks its types."""

import ast
import inspect
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

import graveler
from graveler import Lake
from graveler.lake import (
    admin,
    branch,
    dataset,
    event_rules,
    job,
    pull_requests,
    ref,
    repository,
    show,
)
from graveler.lake import lake as lakes
from graveler.lake.connections import Connections, Exchange
from graveler.lake.session import connect
from tests.cli.service import KEY, SECRET, at_hand
from tests.lake import every_verb

METHODS: Final = ("get", "put", "post", "delete", "head", "patch")

KINDS = (
    *(lakes.Lake, repository.Repository, pull_requests.PullRequests, event_rules.EventRules),
    *(
        job.RefsTask,
        ref.NamedRef,
        ref.Ref,
        branch.Branch,
        ref.Tag,
        ref.Commit,
        dataset.Dataset,
        job.Import,
        job.Collection,
    ),
    *(show.Listing, admin.Admin),
)


# The operations of the API that the script does not call, and why.
ELSEWHERE: Final = {
    "verbs that the script has, for what its lake does not have": (
        *("getTag", "getRun", "getRunHookOutput", "listRunHooks"),  # runs of hooks, a tag's head
        *("publishSnapshot", "withdrawSnapshot"),  # need S3
        "listGroupPolicies",
    ),
    "another operation of the API answers the same": (
        *("commit", "mergeIntoBranch", "dumpRefs", "restoreRefs", "deleteObject", "headObject"),
        *("getCredentials", "getLakeFSVersion", "getStorageConfig", "getGarbageCollectionConfig"),
        *("internalCreateBranchProtectionRule", "internalDeleteBranchProtectionRule"),
        *("internalGetBranchProtectionRules", "internalDeleteGarbageCollectionRules"),
        *("internalGetGarbageCollectionRules", "internalSetGarbageCollectionRules"),
        "getCommitGraph",  # the log of each branch, in columns for the page
    ),
    "uploads to an object store that signs URLs (test_signed.py, tests/transfers)": (
        *("getPhysicalAddress", "linkPhysicalAddress", "createPresignMultipartUpload"),
        *("completePresignMultipartUpload", "abortPresignMultipartUpload", "uploadPart"),
    ),
    "logins and the first start: `connect`, `graveler login`, `admin.set_up`": (
        *("login", "stsLogin", "externalPrincipalLogin", "getSetupState", "setup", "healthCheck"),
    ),
    "jobs of Spark: graveler.lake.bulk, graveler.lake.turns and graveler.spark": (
        *("beginBulkJob", "beatBulkJob", "getBulkJob", "finishBulkJob", "cancelBulkJob"),
        *("listStagingTokens", "listStagedRows", "getBreakParameters", "setBreakParameters"),
        *("beginCollectionTurn", "beatCollectionTurn", "endCollectionTurn", "condemnCommits"),
        *("sweepCollection", "listCollectionRoots", "getMetaRange", "getRange"),
        "getMetadataObject",
    ),
    "only clients of lakeFS ask: rights before a call, statistics, records of another store": (
        *("createBranchProtectionRulePreflight", "setGarbageCollectionRulesPreflight"),
        *("uploadObjectPreflight", "getAuthCapabilities", "postStatsEvents", "setupCommPrefs"),
        *("CreateCommitRecord", "uploadPartCopy"),
    ),
}


def test_it_runs(tmp_path: Path, folder: Path) -> None:
    with graveler.open(tmp_path / "store", import_roots=[folder]) as lake:
        every_verb.run(lake, folder)


def test_the_library_can_do_what_the_api_can(tmp_path: Path, folder: Path) -> None:
    asked = set[tuple[str, str]]()

    def note(exchange: Exchange) -> None:
        asked.add((exchange.method, urlsplit(exchange.url).path.removeprefix("/api/v1")))

    with at_hand(tmp_path / "store", import_roots=[folder]) as served:
        pool = Connections(observer=note)
        every_verb.run(Lake(connect(served.client.url, KEY, SECRET, connections=pool)), folder)
        paths = httpx.get(f"{served.client.url}/openapi.json").json()["paths"]
    missing = set[str]()
    for path, operations in paths.items():
        form = re.compile(re.sub(r"{[^}]*}", "[^/]+", path))
        methods = {method for method, sent in asked if form.fullmatch(sent)}
        missing |= {
            told["operationId"]
            for method, told in operations.items()
            if method in METHODS and method.upper() not in methods
        }
    assert missing == {name for names in ELSEWHERE.values() for name in names}


def test_it_has_every_verb() -> None:
    tree = ast.parse(inspect.getsource(every_verb))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for kind in KINDS:
        verbs = {name for name in vars(kind) if not name.startswith("_")}
        assert verbs <= used, (kind, verbs - used)
