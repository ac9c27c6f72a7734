"""Requests to every operation that succeed in the world of fault_lake.py.

A case says the status of success and, where it differs, what a repetition may be answered once the
first attempt took effect.  Operations without a case are found by a test.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from graveler.core import limits
from tests.api.fault_lake import CLEAN, IMPORT, LAKE, MAIN, READS, SETUP, record
from tests.api.fault_world import World
from tests.asgi import Ask
from tests.auth.fake_sts import unsigned_token
from tests.auth.provider import REDIRECT

DEV = LAKE + "/branches/dev"
REF = LAKE + "/refs/main"
_BOUNDARY = "pieces"
_FORM = (
    f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="content"; filename="n"\r\n'
    f"Content-Type: text/plain\r\n\r\nin a form\r\n--{_BOUNDARY}--\r\n"
).encode()
_IN_PARTS = (
    "setRepositoryMetadata",
    "deleteRepositoryMetadata",
    "deleteObjects",
    "restoreRefs",
    "restoreSubmit",
    "mergePullRequest",
    "deleteUser",
    "deleteGroup",
    "deletePolicy",
)
_ONCE_MORE = ("mergeIntoBranch-squashed", "importStart", "createCredentials")
_CLAIM_SECONDS = 4 * limits.operation_seconds_max + 1  # a namespace claimed for nothing is free
NONE_THERE = {"If-None-Match": "*"}


class Case(NamedTuple):
    """One request.  `again`: statuses of a repetition besides `status`, once there is an effect.
    `also`: targets whose status belongs to the picture.  `empty`: in a world before its set-up."""

    operation: str
    ask: Callable[[World], Ask]
    status: int = 200
    again: tuple[int, ...] = ()
    also: Callable[[World], tuple[str, ...]] = lambda _world: ()
    note: str = ""
    empty: bool = False

    @property
    def parts(self) -> bool:
        """Whether it changes several rows one by one, as its contract says."""
        return self.operation in _IN_PARTS

    @property
    def adds(self) -> bool:
        """Whether a repetition after a success does it once more."""
        return str(self) in _ONCE_MORE

    def holds_all(self, world: World) -> bool:
        """Whether it puts an object whose bytes arrive in one piece: they are put again."""
        return self.operation == "uploadObject" and len(self.ask(world).body) == 1

    @property
    def goes_on(self) -> bool:
        """Whether work goes on behind the answer, and fails on its own."""
        return self.operation in (
            "importStart",
            "commitAsync",
            "mergeIntoBranchAsync",
            "orderCollection",
            "dumpSubmit",
            "restoreSubmit",
        )

    @property
    def patience(self) -> float:
        """Seconds until the trace of a failed attempt no longer stands in the way."""
        if self.goes_on:
            return limits.job_lease_seconds + 1
        return _CLAIM_SECONDS if self.operation == "createRepository" else 0.0

    @property
    def tidies(self) -> str:
        """The request that only tidies up behind the work of the call: its failure changes no
        answer."""
        return "kv.delete" if self.operation == "createRepository" else ""

    def __str__(self) -> str:
        return f"{self.operation}-{self.note}" if self.note else self.operation


def _get(operation: str, target: str, note: str = "", status: int = 200) -> Case:
    return Case(operation, lambda world: Ask("GET", target.format_map(world.names)), status, (),
                note=note)  # fmt: skip


def _json(
    operation: str,
    verb: str,
    target: str,
    body: Any,
    expected: tuple[int, ...] = (200,),
    note: str = "",
) -> Case:
    """`expected`: the status, then those of a repetition; strings of `body` may name commits."""

    def ask(world: World) -> Ask:
        return Ask.json(verb, target.format_map(world.names), _named(body, world))

    return Case(operation, ask, expected[0], expected[1:], note=note)


def _named(value: Any, world: World) -> Any:
    if isinstance(value, dict):
        return {name: _named(each, world) for name, each in value.items()}
    if isinstance(value, list):
        return [_named(each, world) for each in value]
    return value.format_map(world.names) if isinstance(value, str) else value


def _bare(operation: str, verb: str, target: str, expected: tuple[int, ...] = (204,)) -> Case:
    return Case(operation, lambda world: Ask(verb, target.format_map(world.names)),
                expected[0], expected[1:])  # fmt: skip


def _upload(note: str, ask: Ask, again: tuple[int, ...] = ()) -> Case:
    return Case("uploadObject", lambda _world: ask, 201, again, note=note)


# fmt: off
_SERVICE = (
    _get("healthCheck", "/healthcheck", status=204),
    _get("getSetupState", "/setup_lakefs"),
    Case("setup", lambda _world: Ask.json("POST", "/setup_lakefs", SETUP), 200, (409,), empty=True),
    _json("login", "POST", "/auth/login", SETUP["key"]),
    _get("getAuthCapabilities", "/auth/capabilities"),
    _get("getCurrentUser", "/user"),
    _get("getConfig", "/config"),
    _get("getLakeFSVersion", "/config/version"),
    _get("getStorageConfig", "/config/storage"),
    _json("postStatsEvents", "POST", "/statistics", {"events": []}, (204,)),
    _get("getUsageReportSummary", "/usage-report/summary"),
    _get("listAuditLines", "/audit", status=501),
    _json("setupCommPrefs", "POST", "/setup_comm_prefs",
          {"featureUpdates": True, "securityUpdates": False}, (200, 409)),
)

_NEW = {"name": "fresh", "storage_namespace": "mem://fresh/x"}
_BREAKS = {"min_size": 0, "max_size": limits.range_size_bytes_default,
           "raggedness": limits.range_raggedness_default, "salt": "{salt}"}
_REPOSITORIES = (
    _get("listRepositories", "/repositories"),
    _json("createRepository", "POST", "/repositories", _NEW, (201, 409)),
    _json("createRepository", "POST", "/repositories?bare=true", _NEW, (201, 409), "bare"),
    _get("getRepository", LAKE),
    _bare("deleteRepository", "DELETE", "/repositories/spare", (204, 404)),
    _get("getRepositoryMetadata", LAKE + "/metadata"),
    _json("setRepositoryMetadata", "POST", LAKE + "/metadata",
          {"metadata": {"team": "z", "new": "n"}}, (204,)),
    _json("deleteRepositoryMetadata", "DELETE", LAKE + "/metadata",
          {"keys": ["team", "old", "none"]}, (204,)),
    _get("getBreakParameters", LAKE + "/settings/breaks"),
    _json("setBreakParameters", "PUT", LAKE + "/settings/breaks",
          {"expected": _BREAKS, "breaks": _BREAKS | {"raggedness": 7}}),
    _get("getMetaRange", LAKE + "/metadata/meta_range/{dev metarange}"),
    _get("getRange", LAKE + "/metadata/range/{range}"),
    _get("getMetadataObject", LAKE + "/metadata/object/range/{range}"),
)

_BRANCHES = (
    _get("listBranches", LAKE + "/branches"),
    _json("createBranch", "POST", LAKE + "/branches", {"name": "new", "source": "dev"}, (201, 409)),
    _get("getBranch", DEV),
    _bare("deleteBranch", "DELETE", DEV, (204, 404)),
    _json("resetBranch", "PUT", MAIN, {"type": "reset"}, (204,)),
    _json("resetBranch", "PUT", MAIN, {"type": "object", "path": "s/1"}, (204,), "path"),
    _json("resetBranch", "PUT", MAIN, {"type": "common_prefix", "path": "s/"}, (204,), "prefix"),
    _bare("hardResetBranch", "PUT", CLEAN + "/hard_reset?ref={first}"),
    _get("diffBranch", MAIN + "/diff"),
    _json("revertBranch", "POST", CLEAN + "/revert", {"ref": "{clean}", "parent_number": 1},
          (204, 400)),
    _json("cherryPick", "POST", CLEAN + "/cherry-pick", {"ref": "{dev}"}, (201, 400)),
)

_TAGS = (
    _get("listTags", LAKE + "/tags"),
    _json("createTag", "POST", LAKE + "/tags", {"id": "v2", "ref": "dev"}, (201, 409)),
    _get("getTag", LAKE + "/tags/v1"),
    _bare("deleteTag", "DELETE", LAKE + "/tags/v1", (204, 404)),
)

_COMMITS = (
    _json("commit", "POST", MAIN + "/commits", {"message": "m"}, (201, 400)),
    _json("commit", "POST", CLEAN + "/commits?source_metarange={dev metarange}", {"message": "m"},
          (201, 400), "of a metarange"),
    _json("commitAsync", "POST", MAIN + "/commits/async", {"message": "m"}, (202,)),
    _get("commitAsyncStatus", MAIN + "/commits/async/{commit job}/status"),
    _get("getCommit", LAKE + "/commits/{dev}"),
    Case("CreateCommitRecord",
         lambda world: Ask.json("POST", LAKE + "/commits", record(world)), 204,
         also=lambda world: (f"{LAKE}/commits/{record(world)['commit_id']}",)),
    _get("logCommits", REF + "/commits"),
    _get("logCommits", REF + "/commits?objects=a&prefixes=s", "of paths"),
    _get("diffRefs", LAKE + "/refs/clean/diff/dev"),
    _get("diffRefs", LAKE + "/refs/clean/diff/main?type=two_dot", "two dots"),
    _get("findMergeBase", LAKE + "/refs/dev/merge/clean"),
    _json("mergeIntoBranch", "POST", LAKE + "/refs/dev/merge/clean", {}, (200, 400)),
    _json("mergeIntoBranch", "POST", LAKE + "/refs/dev/merge/clean", {"squash_merge": True},
          (200,), "squashed"),
    _json("mergeIntoBranchAsync", "POST", LAKE + "/refs/dev/merge/clean/async", {}, (202,)),
    _get("mergeIntoBranchAsyncStatus",
         LAKE + "/refs/dev/merge/clean/async/{merge job}/status"),
)

_PATH = MAIN + "/objects?path="
HANDED = MAIN + "/staging/backing?path=n"
LINK: dict[str, Any] = {"checksum": "c", "size_bytes": 6}
_STAGED = LINK | {"physical_address": "mem://outside/in/one", "size_bytes": 3}
_LINKED = LINK | {"staging": {"physical_address": "{address}"}}
_UPLOAD = MAIN + "/staging/pmpu/{{upload}}{}?path=joined"
_AT = {"physical_address": "{parts}"}
_COPIED = {"repository": "lake", "ref": "dev", "path": "d"}
_OBJECTS = (
    _get("getObject", REF + "/objects?path=a"),
    _get("getObject", REF + "/objects?path=s/3", "staged"),
    _bare("headObject", "HEAD", REF + "/objects?path=a", (200,)),
    _get("statObject", REF + "/objects/stat?path=a"),
    _get("getUnderlyingProperties", REF + "/objects/underlyingProperties?path=a"),
    _get("listObjects", REF + "/objects/ls?delimiter=/"),
    _upload("", Ask("POST", _PATH + "n", (b"content",))),
    _upload("in pieces", Ask("POST", _PATH + "n", (b"content", b" in", b" pieces"))),
    _upload("in a form", Ask("POST", _PATH + "n", (_FORM,),
                             {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"})),
    _upload("over another", Ask("POST", _PATH + "a", (b"content",))),
    _upload("if absent", Ask("POST", _PATH + "n", (b"content",), NONE_THERE), (412,)),
    _json("stageObject", "PUT", _PATH + "n", _STAGED, (201,)),
    _json("stageObject", "PUT", MAIN + "/objects?path=linked",
          LINK | {"physical_address": "{address}"}, (201,), "handed out"),
    _bare("deleteObject", "DELETE", _PATH + "a"),
    _json("deleteObjects", "POST", MAIN + "/objects/delete", {"paths": ["a", "s/1", "none"]}),
    _json("copyObject", "POST", MAIN + "/objects/copy?dest_path=n", {"src_path": "a"}, (201,)),
    _get("uploadObjectPreflight", MAIN + "/objects/stage_allowed?path=n", status=204),
    _json("updateObjectUserMetadata", "PUT", MAIN + "/objects/stat/user_metadata?path=a",
          {"set": {"k": "v"}}, (204,)),
    _get("getPhysicalAddress", HANDED),
    _json("linkPhysicalAddress", "PUT", MAIN + "/staging/backing?path=linked", _LINKED),
    Case("linkPhysicalAddress",
         lambda world: Ask.json("PUT", MAIN + "/staging/backing?path=linked",
                                _named(_LINKED, world))._replace(headers=NONE_THERE),
         note="if absent"),
    _bare("createPresignMultipartUpload", "POST", MAIN + "/staging/pmpu?path=n&parts=2", (201,)),
    _json("uploadPart", "PUT", _UPLOAD.format("/parts/3"), _AT),
    _json("uploadPartCopy", "PUT", _UPLOAD.format("/parts/4/copy"), _AT | {"copy_source": _COPIED},
          (204,)),
    _json("completePresignMultipartUpload", "PUT", _UPLOAD.format(""),
          _AT | {"parts": [{"part_number": 1, "etag": "{etag}"}]}),
    _json("abortPresignMultipartUpload", "DELETE", _UPLOAD.format(""), _AT, (204,)),
    _json("importStart", "POST", CLEAN + "/import", IMPORT, (202,)),
    _get("importStatus", MAIN + "/import?id={job}"),
    Case("importCancel", lambda world: Ask("DELETE", f"{MAIN}/import?id={world.names['job']}"),
         204),
)
_BULK = CLEAN + "/bulk/{bulk job}"
_CLUSTER = (
    _json("beginBulkJob", "POST", CLEAN + "/bulk", {"mode": "merge", "id": "load-1"}, (201,)),
    _json("beginBulkJob", "POST", CLEAN + "/bulk",
          {"mode": "pack", "id": "pack-1", "breaks": _BREAKS}, (201,), "to pack"),
    _get("getBulkJob", _BULK),
    _json("beatBulkJob", "PUT", _BULK, {"progress": 7}),
    _bare("cancelBulkJob", "DELETE", _BULK),
    _json("finishBulkJob", "PUT", _BULK + "/finish",
          {"metarange": "{dev metarange}", "request_id": "r", "message": "landed"}, (201,)),
    _get("listStagingTokens", MAIN + "/staging/tokens"),
    _get("listStagedRows", MAIN + "/staging/tokens/{token}/0"),
    _get("listCollectionRoots", LAKE + "/gc/roots"),
)
# The files of this world are in no S3, so a snapshot of them is refused.
_SNAPSHOT = {"name": "t", "ref": "main", "path": "a"}
_SNAPSHOTS = (
    _get("listSnapshots", LAKE + "/snapshots"),
    _get("getSnapshot", LAKE + "/snapshots/published?name=t", status=501),
    _json("publishSnapshot", "POST", LAKE + "/snapshots", _SNAPSHOT, (501,)),
    _bare("withdrawSnapshot", "DELETE", LAKE + "/snapshots?name=t", (501,)),
)
_OWN = (
    _get("getRef", REF),
    _get("previewMerge", LAKE + "/refs/dev/merge/clean/preview"),
    _json("mergeIntoBranch", "POST", LAKE + "/refs/dev/merge/clean",
          {"resolutions": {"": "source"}}, (200, 400), "resolved"),
    _get("logCommits", REF + "/commits?author=nobody", "of an author"),
    _get("getCommitGraph", LAKE + "/graph?heads=dev&heads=clean"),
    _get("getCommitGraph", LAKE + "/graph", "of the default branch"),
    _get("summarizeObjects", REF + "/objects/summary"),
    _get("summarizeDiff", LAKE + "/refs/clean/diff/dev/summary"),
    _get("summarizeUncommitted", MAIN + "/diff/summary"),
    _get("listJobs", LAKE + "/jobs"),
    _get("getJob", LAKE + "/jobs/{merge job}"),
    _bare("cancelJob", "DELETE", LAKE + "/jobs/{merge job}"),
)
_RUN = LAKE + "/actions/runs/{action run}"
_ACTIONS = (
    _get("listRepositoryRuns", LAKE + "/actions/runs"),
    _get("listRepositoryRuns", LAKE + "/actions/runs?branch=main", "of a branch"),
    _get("getRun", _RUN),
    _get("listRunHooks", _RUN + "/hooks"),
    _get("getRunHookOutput", _RUN + "/hooks/0000_0000/output"),
)
_RULES = LAKE + "/events/rules"
_EVENTS = (
    _get("listEventRules", _RULES),
    _json("createEventRule", "POST", _RULES, {"branch": "main", "bucket": "landing"}, (201, 409)),
    _get("getEventRule", _RULES + "/{rule}"),
    Case("deleteEventRule", lambda world: Ask("DELETE", f"{_RULES}/{world.names['rule']}"),
         204, (404,)),
)
_RULE = {"default_retention_days": 7, "branches": [{"branch_id": "dev", "retention_days": 1}]}
_DUMP = {f"{kind}_meta_range_id": f"{{{kind}}}" for kind in ("commits", "tags", "branches")}
_UPKEEP = (
    _get("getGCRules", LAKE + "/settings/gc_rules"),
    _json("setGCRules", "PUT", LAKE + "/settings/gc_rules", _RULE, (204,)),
    _bare("deleteGCRules", "DELETE", LAKE + "/settings/gc_rules"),
    _get("internalGetGarbageCollectionRules", LAKE + "/gc/rules"),
    _json("internalSetGarbageCollectionRules", "POST", LAKE + "/gc/rules", _RULE, (204,)),
    _bare("internalDeleteGarbageCollectionRules", "DELETE", LAKE + "/gc/rules"),
    _get("setGarbageCollectionRulesPreflight", LAKE + "/gc/rules/set_allowed", status=204),
    _get("getGarbageCollectionConfig", "/config/garbage-collection"),
    Case("createSymlinkFile", lambda _world: Ask("POST", LAKE + "/refs/dev/symlink"), 201),
    _json("orderCollection", "POST", LAKE + "/gc/runs", {}, (202,)),
    _json("orderCollection", "POST", "/repositories/spare/gc/runs", {"dry_run": False}, (202,),
          "to delete"),
    _get("getCollection", "/repositories/spare/gc/runs/{collection}"),
    _bare("undoCollection", "DELETE", LAKE + "/gc/runs/{run}"),
    _json("condemnCommits", "POST", LAKE + "/gc/runs/01CLUSTER/condemned",
          {"metaranges": ["{dev metarange}"], "turn": "01TURN"}),
    _json("sweepCollection", "PUT", LAKE + "/gc/runs/{run}/sweeping",
          {"undone": 0, "turn": "01TURN"}, (204,)),
    _json("beginCollectionTurn", "POST", "/repositories/spare/gc/turns", {"id": "01T"}, (201,)),
    _bare("beatCollectionTurn", "PUT", LAKE + "/gc/turns/01TURN", (200,)),
    _bare("endCollectionTurn", "DELETE", LAKE + "/gc/turns/01TURN", (204,)),
    _bare("dumpSubmit", "POST", LAKE + "/dump", (202,)),
    _get("dumpStatus", "/repositories/spare/dump?task_id={dump}"),
    _bare("dumpRefs", "PUT", LAKE + "/refs/dump", (201,)),
    _json("restoreSubmit", "POST", "/repositories/bare/restore", _DUMP, (202, 400)),
    _get("restoreStatus", "/repositories/waiting/restore?task_id={restore}"),
    _json("restoreRefs", "PUT", "/repositories/bare/refs/restore", _DUMP, (200, 400)),
)
_PROTECTION, _OLDER = LAKE + "/settings/branch_protection", LAKE + "/branch_protection"
_PULL = LAKE + "/pulls/{pull}"
_PROPOSAL = {"title": "another", "source_branch": "dev", "destination_branch": "main"}
_GATES = (
    _get("getBranchProtectionRules", _PROTECTION),
    _json("setBranchProtectionRules", "PUT", _PROTECTION, [{"pattern": "other"}], (204,)),
    _get("internalGetBranchProtectionRules", _OLDER),
    _json("internalCreateBranchProtectionRule", "POST", _OLDER, {"pattern": "x"}, (204, 409)),
    _json("internalDeleteBranchProtectionRule", "DELETE", _OLDER, {"pattern": "kept-*"},
          (204, 404)),
    _get("createBranchProtectionRulePreflight", _OLDER + "/set_allowed", status=204),
    _get("listPullRequests", LAKE + "/pulls?status=open"),
    _get("getPullRequest", _PULL),
    _json("createPullRequest", "POST", LAKE + "/pulls", _PROPOSAL, (201,)),
    _json("updatePullRequest", "PATCH", _PULL, {"title": "new"}, (204,)),
    _bare("mergePullRequest", "PUT", _PULL + "/merge", (200, 400)),
    _get("listComments", _PULL + "/comments"),
    _json("createComment", "POST", _PULL + "/comments", {"text": "why?"}, (201,)),
    _json("updateComment", "PATCH", _PULL + "/comments/1", {"resolved": True}, (204,)),
)
_ANN, _BOB, _TEAM = "/auth/users/ann", "/auth/users/bob", "/auth/groups/team"
_MAY_I = {"pairs": [{"action": "fs:ReadObject", "resource": "*"}]}


def _external_login(world: World) -> Ask:
    token = unsigned_token(world.clock.now_ns() // limits.SECOND_NS)
    body = {"identityRequest": {"identity_token": token}}
    return Ask.json("POST", "/auth/external/principal/login", body)


def _sts_login(world: World) -> Ask:
    code = str(world.clock.now_ns() // limits.SECOND_NS)
    body = {"code": code, "state": "s", "redirect_uri": REDIRECT}
    return Ask.json("POST", "/sts/login", body)


_ACCESS = (
    Case("externalPrincipalLogin", _external_login),
    Case("stsLogin", _sts_login),
    _get("listUsers", "/auth/users"),
    _json("createUser", "POST", "/auth/users", {"id": "new"}, (201, 409)),
    _get("getUser", _ANN),
    _bare("deleteUser", "DELETE", _ANN, (204, 404)),
    _bare("disableUser", "POST", _ANN + "/disable"),
    _bare("enableUser", "POST", _ANN + "/enable"),
    _get("listUserGroups", _ANN + "/groups"),
    _get("listUserPolicies", _ANN + "/policies"),
    _get("listUserPolicies", _ANN + "/policies?effective=true", "effective"),
    _bare("attachPolicyToUser", "PUT", _BOB + "/policies/spare", (201,)),
    _bare("detachPolicyFromUser", "DELETE", _ANN + "/policies/own"),
    _get("listUserCredentials", _ANN + "/credentials"),
    _bare("createCredentials", "POST", _BOB + "/credentials", (201,)),
    _get("getCredentials", _ANN + "/credentials/{key}"),
    _bare("deleteCredentials", "DELETE", _ANN + "/credentials/{key}", (204, 404)),
    _get("listUserExternalPrincipals", _ANN + "/external/principals/ls"),
    _get("getExternalPrincipal", "/auth/external/principals?principalId=arn:known"),
    _bare("createUserExternalPrincipal", "POST", _BOB + "/external/principals?principalId=arn:new",
          (201, 409)),
    _bare("deleteUserExternalPrincipal", "DELETE",
          _ANN + "/external/principals?principalId=arn:known", (204, 404)),
    _get("listGroups", "/auth/groups"),
    _json("createGroup", "POST", "/auth/groups", {"id": "new"}, (201, 409)),
    _get("getGroup", _TEAM),
    _bare("deleteGroup", "DELETE", _TEAM, (204, 404)),
    _get("listGroupMembers", _TEAM + "/members"),
    _bare("addGroupMembership", "PUT", _TEAM + "/members/bob", (201,)),
    _bare("deleteGroupMembership", "DELETE", _TEAM + "/members/ann"),
    _get("listGroupPolicies", _TEAM + "/policies"),
    _bare("attachPolicyToGroup", "PUT", _TEAM + "/policies/spare", (201,)),
    _bare("detachPolicyFromGroup", "DELETE", _TEAM + "/policies/reads"),
    _get("listPolicies", "/auth/policies"),
    _json("createPolicy", "POST", "/auth/policies", {"id": "new", "statement": READS}, (201, 409)),
    _get("getPolicy", "/auth/policies/own"),
    _json("updatePolicy", "PUT", "/auth/policies/own", {"id": "own", "statement": READS * 2}),
    _bare("deletePolicy", "DELETE", "/auth/policies/own", (204, 404)),
    _json("mayI", "POST", "/auth/may-i", _MAY_I),
)
# fmt: on

CASES = (
    *_ACCESS,
    *_SERVICE,
    *_REPOSITORIES,
    *_BRANCHES,
    *_TAGS,
    *_COMMITS,
    *_OBJECTS,
    *_CLUSTER,
    *_SNAPSHOTS,
    *_OWN,
    *_EVENTS,
    *_UPKEEP,
    *_GATES,
    *_ACTIONS,
)


def operations() -> Iterator[str]:
    """Those that have a case."""
    for case in CASES:
        yield case.operation
