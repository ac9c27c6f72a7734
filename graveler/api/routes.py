"""The table of routes: the only module that declares API operations.

Routing, validation, authentication and the OpenAPI document read this table.  No other module
declares a route below /api/v1.  A row that needs no credentials is marked as such, and a test fixes
the exact list of these rows.  Pure data.
"""

from typing import Any, Final

from graveler import limits
from graveler.api.operation import BRANCH, REF, REPO, Runs
from graveler.api.table import (
    AFTER,
    AMOUNT,
    DELIMITER,
    FORCE,
    IF_MATCH,
    IF_NONE_MATCH,
    NO_TOMBSTONE,
    PAGE,
    PATH,
    PREFIX,
    PRESIGN,
    RANGE,
    SWITCH,
    TEXT,
    USER_METADATA,
    Parameter,
    Route,
)

_PARTS: Final = BRANCH + "/staging/pmpu"
_MERGE: Final = REPO + "/refs/{sourceRef}/merge/{destinationBranch}"

_BREAKS: Final = REPO + "/settings/breaks"

_REPOSITORY: Final = "repository/{repository}"
_OF_BRANCH: Final = _REPOSITORY + "/branch/{branch}"
_OF_OBJECT: Final = _REPOSITORY + "/object/{path}"
_OPEN: Final[dict[str, Any]] = {"authenticated": False}
_POOL: Final[dict[str, Any]] = {"runs": Runs.POOL}
_LOOP: Final[dict[str, Any]] = {"runs": Runs.LOOP}
_POINT: Final[dict[str, Any]] = {"runs": Runs.POINT}
_WALK: Final[dict[str, Any]] = {"runs": Runs.WALK}


def _array(name: str, description: str) -> Parameter:
    schema = {"type": "array", "items": TEXT}
    return Parameter(name, schema, description=description)


_DOTS: Final = Parameter(
    "type", {"type": "string", "enum": ["two_dot", "three_dot"], "default": "three_dot"}
)
_SUMMARY: Final = (
    PREFIX,
    AFTER,
    AMOUNT,
    Parameter(
        "delimiter",
        {"type": "string", "default": "/"},
        description="paths that share a stem up to this become one line",
    ),
    Parameter(
        "sizes",
        {"type": "boolean", "default": True},
        description="sum up bytes too; without, ranges below one child are not read",
    ),
)


# The formatter is off so that the table keeps one row for each operation.
# fmt: off
_SERVICE = (
    Route("healthCheck", "GET", "/healthcheck", "health", "Check that the service runs",
          answers={204: ""}, **_OPEN, **_LOOP),
    Route("getSetupState", "GET", "/setup_lakefs", "setup", "Whether the administrator exists",
          answers={200: "SetupState"}, **_OPEN, **_POINT),
    Route("setup", "POST", "/setup_lakefs", "setup", "Create the administrator, once",
          body="Setup", answers={200: "CredentialsWithSecret"}, runs=Runs.POOL,
          authenticated=False),
    Route("login", "POST", "/auth/login", "auth", "Begin a session with a credential",
          body="LoginInformation", answers={200: "AuthenticationToken"}, **_OPEN, **_POOL),
    Route("getAuthCapabilities", "GET", "/auth/capabilities", "auth",
          "What users can change", answers={200: "AuthCapabilities"}, **_OPEN, **_LOOP),
    Route("getCurrentUser", "GET", "/user", "auth", "The calling user",
          "auth:ReadUser", answers={200: "CurrentUser"}, **_LOOP),
    Route("getConfig", "GET", "/config", "config", "The configuration for clients",
          "fs:ReadConfig", answers={200: "Config"}, **_LOOP),
    Route("getLakeFSVersion", "GET", "/config/version", "config", "The version of the API",
          "fs:ReadConfig", answers={200: "VersionConfig"}, **_LOOP),
    Route("getStorageConfig", "GET", "/config/storage", "config", "The capabilities of the storage",
          "fs:ReadConfig", answers={200: "StorageConfig"}, **_LOOP),
    Route("postStatsEvents", "POST", "/statistics", "statistics",
          "Accept statistics and drop them: the service collects none", "", body="StatsEventsList",
          answers={204: ""}, **_LOOP),
)

_REPOSITORIES = (
    Route("listRepositories", "GET", "/repositories", "repositories", "List repositories",
          "fs:ListRepositories", parameters=(*PAGE, Parameter("search", TEXT)),
          answers={200: "RepositoryList"}, **_WALK),
    Route("createRepository", "POST", "/repositories", "repositories", "Create a repository",
          "fs:CreateRepository", "repository/{name}",
          (Parameter("bare", SWITCH, description="create no branch and no commit"),),
          "RepositoryCreation", {201: "Repository"}, **_POOL),
    Route("getRepository", "GET", REPO, "repositories", "Get a repository",
          "fs:ReadRepository", _REPOSITORY, answers={200: "Repository"}, **_POINT),
    Route("deleteRepository", "DELETE", REPO, "repositories",
          "Delete a repository; its objects stay", "fs:DeleteRepository", _REPOSITORY,
          (FORCE,), answers={204: ""}, **_POOL),
    Route("getRepositoryMetadata", "GET", REPO + "/metadata", "repositories",
          "Get the metadata of a repository", "fs:ReadRepository", _REPOSITORY,
          answers={200: "RepositoryMetadata"}, **_POINT),
    Route("setRepositoryMetadata", "POST", REPO + "/metadata", "repositories",
          "Add or replace metadata pairs", "fs:UpdateRepository", _REPOSITORY,
          body="RepositoryMetadataSet", answers={204: ""}, **_POOL),
    Route("deleteRepositoryMetadata", "DELETE", REPO + "/metadata", "repositories",
          "Remove metadata pairs by key", "fs:UpdateRepository", _REPOSITORY,
          body="RepositoryMetadataKeys", answers={204: ""}, **_POOL),
    Route("getBreakParameters", "GET", _BREAKS, "repositories", "Get the break parameters",
          "fs:ReadRepository", _REPOSITORY, answers={200: "Breaks"}, **_POINT),
    Route("setBreakParameters", "PUT", _BREAKS, "repositories",
          "Change the break parameters of new ranges; 412: the present ones differ from `expected`",
          "fs:UpdateRepository", _REPOSITORY, body="BreakParametersSet",
          answers={200: "Breaks"}, **_POOL),
    Route("getMetaRange", "GET", REPO + "/metadata/meta_range/{meta_range}", "metadata",
          "The address of a metarange", "fs:ReadRepository", _REPOSITORY,
          answers={200: "StorageURI"}, **_POOL),
    Route("getRange", "GET", REPO + "/metadata/range/{range}", "metadata",
          "The address of a range", "fs:ReadRepository", _REPOSITORY, answers={200: "StorageURI"},
          **_POOL),
    Route("getMetadataObject", "GET", REPO + "/metadata/object/{type}/{object_id}", "metadata",
          "The bytes of a range or metarange", "fs:ListObjects", _REPOSITORY, (PRESIGN,),
          answers={200: "", 302: ""}, runs=Runs.STREAM),
)

_BRANCHES = (
    Route("diffBranch", "GET", BRANCH + "/diff", "branches", "List uncommitted changes",
          "fs:ListObjects", _REPOSITORY, (PREFIX, AFTER, AMOUNT, DELIMITER),
          answers={200: "DiffList"}, **_WALK),
    Route("revertBranch", "POST", BRANCH + "/revert", "branches",
          "Commit the inverse of a commit", "fs:CreateCommit", _OF_BRANCH,
          body="RevertCreation", answers={204: ""}, **_POOL),
    Route("cherryPick", "POST", BRANCH + "/cherry-pick", "branches",
          "Commit the change of another commit", "fs:CreateCommit", _OF_BRANCH,
          body="CherryPickCreation", answers={201: "Commit"}, **_POOL),
)

_COMMITS = (
    Route("commit", "POST", BRANCH + "/commits", "commits", "Commit the uncommitted changes",
          "fs:CreateCommit", _OF_BRANCH,
          (Parameter("source_metarange", TEXT, description="commit this metarange instead"),),
          "CommitCreation", {201: "Commit"}, **_POOL),
    Route("commitAsync", "POST", BRANCH + "/commits/async", "commits",
          "Begin a commit in the background", "fs:CreateCommit", _OF_BRANCH,
          (Parameter("source_metarange", TEXT, description="commit this metarange instead"),),
          "CommitCreation", {202: "TaskCreation"}, **_POOL),
    Route("commitAsyncStatus", "GET", BRANCH + "/commits/async/{id}/status", "commits",
          "The status of a commit in the background", "fs:ReadBranch", _OF_BRANCH,
          answers={200: "CommitStatus"}, **_POOL),
    Route("getCommit", "GET", REPO + "/commits/{commitId}", "commits",
          "Get a commit by a ref expression", "fs:ReadCommit", _REPOSITORY,
          answers={200: "Commit"}, **_POINT),
    Route("CreateCommitRecord", "POST", REPO + "/commits", "commits",
          "Insert a commit record; its id must be its hash", "fs:CreateCommit",
          _REPOSITORY, body="CommitRecordCreation", answers={204: ""}, **_POOL),
    Route("logCommits", "GET", REF + "/commits", "refs", "List commits, newest first",
          "fs:ListCommits", _REPOSITORY,
          (AFTER, AMOUNT, _array("objects", "commits that change one of these paths"),
           _array("prefixes", "commits that change a path under one of these prefixes"),
           Parameter("limit", SWITCH, description="return one page only"),
           Parameter("first_parent", SWITCH),
           Parameter("since", {"type": "string", "format": "date-time"}),
           Parameter("stop_at", TEXT, description="the last commit of the listing"),
           Parameter("author", TEXT, description=(
               "commits whose committer contains this text, whatever the case of letters; "
               "lakeFS has no such parameter. A page may be short, or empty, and yet not the last"
           ))),
          answers={200: "CommitList"}, **_WALK),
    Route("diffRefs", "GET", REPO + "/refs/{leftRef}/diff/{rightRef}", "refs",
          "List the differences between two refs", "fs:ListObjects", _REPOSITORY,
          (AFTER, AMOUNT, PREFIX, DELIMITER,
           _DOTS,
           Parameter("include_right_stats", SWITCH)),
          answers={200: "DiffList"}, **_WALK),
    Route("findMergeBase", "GET", _MERGE, "refs",
          "The best common ancestor", "fs:ListCommits", _REPOSITORY,
          answers={200: "FindMergeBaseResult"}, **_WALK),
    Route("mergeIntoBranch", "POST", _MERGE,
          "refs", "Merge a ref into a branch", "fs:CreateCommit",
          _REPOSITORY + "/branch/{destinationBranch}", body="Merge",
          answers={200: "MergeResult", 409: "MergeResult"}, **_POOL),
    Route("mergeIntoBranchAsync", "POST", _MERGE + "/async", "refs",
          "Begin a merge in the background", "fs:CreateCommit",
          _REPOSITORY + "/branch/{destinationBranch}", body="Merge",
          answers={202: "TaskCreation"}, **_POOL),
    Route("mergeIntoBranchAsyncStatus", "GET", _MERGE + "/async/{id}/status", "refs",
          "The status of a merge in the background", "fs:ReadBranch",
          _REPOSITORY + "/branch/{destinationBranch}", answers={200: "MergeStatus"}, **_POOL),
)

_OBJECTS = (
    Route("getObject", "GET", REF + "/objects", "objects", "The bytes of an object",
          "fs:ReadObject", _OF_OBJECT, (PATH, RANGE, IF_NONE_MATCH, PRESIGN),
          answers={200: "", 206: "", 302: "", 304: ""}, runs=Runs.STREAM),
    Route("headObject", "HEAD", REF + "/objects", "objects", "The headers of an object",
          "fs:ReadObject", _OF_OBJECT, (PATH, RANGE), answers={200: "", 206: ""}, **_POINT),
    Route("statObject", "GET", REF + "/objects/stat", "objects", "Get the entry of a path",
          "fs:ReadObject", _OF_OBJECT, (PATH, USER_METADATA, PRESIGN),
          answers={200: "ObjectStats"}, **_POINT),
    Route("getUnderlyingProperties", "GET", REF + "/objects/underlyingProperties", "objects",
          "The storage class of an object", "fs:ReadObject", _OF_OBJECT, (PATH,),
          answers={200: "UnderlyingObjectProperties"}, **_POOL),
    Route("listObjects", "GET", REF + "/objects/ls", "objects", "List objects and prefixes",
          "fs:ListObjects", _REPOSITORY, (USER_METADATA, PRESIGN, *PAGE, DELIMITER),
          answers={200: "ObjectStatsList"}, **_WALK),
    Route("uploadObject", "POST", BRANCH + "/objects", "objects",
          "Upload an object: the raw body, or multipart/form-data with one part `content`",
          "fs:WriteObject", _OF_OBJECT,
          (PATH, Parameter("storageClass", TEXT), FORCE, IF_NONE_MATCH, IF_MATCH),
          answers={201: "ObjectStats"}, runs=Runs.STREAM),
    Route("stageObject", "PUT", BRANCH + "/objects", "objects",
          "Stage an entry for an object that is already in storage",
          "fs:ImportFromStorage", _OF_OBJECT, (PATH, IF_NONE_MATCH, IF_MATCH),
          "ObjectStageCreation", {201: "ObjectStats"}, **_POOL),
    Route("deleteObject", "DELETE", BRANCH + "/objects", "objects", "Delete a path",
          "fs:DeleteObject", _OF_OBJECT, (PATH, FORCE, NO_TOMBSTONE), answers={204: ""}, **_POOL),
    Route("deleteObjects", "POST", BRANCH + "/objects/delete", "objects",
          "Delete up to 1,000 paths", "fs:DeleteObject", _REPOSITORY + "/object/*",
          (FORCE, NO_TOMBSTONE), "PathList", {200: "ObjectErrorList"}, **_POOL),
    Route("copyObject", "POST", BRANCH + "/objects/copy", "objects", "Copy an object",
          "fs:WriteObject", _REPOSITORY + "/object/{dest_path}",
          (Parameter("dest_path", TEXT, required=True),), "ObjectCopyCreation",
          {201: "ObjectStats"}, **_POOL),
    Route("uploadObjectPreflight", "GET", BRANCH + "/objects/stage_allowed", "objects",
          "Whether an upload would be allowed", "fs:WriteObject", _OF_OBJECT, (PATH,),
          answers={204: ""}, **_POINT),
    Route("updateObjectUserMetadata", "PUT", BRANCH + "/objects/stat/user_metadata", "objects",
          "Replace the metadata of an object", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "UpdateObjectUserMetadata", {204: ""}, **_POOL),
    Route("getPhysicalAddress", "GET", BRANCH + "/staging/backing", "staging",
          "Get an upload address for one path", "fs:WriteObject", _OF_OBJECT,
          (PATH, PRESIGN, IF_NONE_MATCH), answers={200: "StagingLocation"}, **_POOL),
    Route("linkPhysicalAddress", "PUT", BRANCH + "/staging/backing", "staging",
          "Link the object that was written to an upload address", "fs:WriteObject", _OF_OBJECT,
          (PATH, IF_NONE_MATCH, IF_MATCH), "StagingMetadata", {200: "ObjectStats"}, **_POOL),
    Route("createPresignMultipartUpload", "POST", _PARTS, "staging",
          "Begin a multipart upload, with presigned URLs for its parts", "fs:WriteObject",
          _OF_OBJECT,
          (PATH, Parameter("parts", {"type": "integer"}, description="the number of URLs")),
          answers={201: "PresignMultipartUpload"}, **_POOL),
    Route("uploadPart", "PUT", _PARTS + "/{uploadId}/parts/{partNumber}", "staging",
          "Get a presigned URL for one part", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "PartsUploadAddress", {200: "PresignedPart"}, **_POOL),
    Route("uploadPartCopy", "PUT", _PARTS + "/{uploadId}/parts/{partNumber}/copy", "staging",
          "Copy bytes of another object into a part", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "UploadPartCopyFrom", {204: ""}, **_POOL),
    Route("completePresignMultipartUpload", "PUT", _PARTS + "/{uploadId}", "staging",
          "Join the parts and link the object", "fs:WriteObject", _OF_OBJECT,
          (PATH, IF_NONE_MATCH, IF_MATCH), "CompletePresignMultipartUpload",
          {200: "ObjectStats"}, **_POOL),
    Route("abortPresignMultipartUpload", "DELETE", _PARTS + "/{uploadId}", "staging",
          "Abort an upload and delete its parts", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "PartsUploadAddress", {204: ""}, **_POOL),
    Route("importStart", "POST", BRANCH + "/import", "import",
          "Import objects in place, as one commit", "fs:ImportFromStorage", _OF_BRANCH,
          body="ImportCreation", answers={202: "ImportCreationResponse"}, **_POOL),
    Route("importStatus", "GET", BRANCH + "/import", "import", "The progress of an import",
          "fs:ReadBranch", _OF_BRANCH, (Parameter("id", TEXT, required=True),),
          answers={200: "ImportStatus"}, **_POINT),
    Route("importCancel", "DELETE", BRANCH + "/import", "import", "Cancel an import",
          "fs:ImportFromStorage", _OF_BRANCH, (Parameter("id", TEXT, required=True),),
          answers={204: ""}, **_POOL),
)

_BULK = BRANCH + "/bulk"
_MANY = Parameter(
    "amount",
    {"type": "integer", "minimum": 1, "maximum": limits.bulk_page_count_max, "default": 1_000},
    description="the greatest number of results; a page may have fewer, even if more follow",
)
_FOLLOWING = Parameter("after", TEXT, description="next_offset of the previous page")
_CLUSTER = (
    Route("beginBulkJob", "POST", _BULK, "bulk",
          "Begin a bulk job: a cluster writes ranges, and the service commits them",
          "fs:ImportFromStorage", _OF_BRANCH,
          body="BulkJobCreation", answers={201: "BulkJob"}, **_POOL),
    Route("getBulkJob", "GET", _BULK + "/{id}", "bulk", "The state of a bulk job",
          "fs:ReadBranch", _OF_BRANCH, answers={200: "BulkJob"}, **_POINT),
    Route("beatBulkJob", "PUT", _BULK + "/{id}", "bulk",
          "Send the heartbeat of a bulk job; 409: the job must stop", "fs:ImportFromStorage",
          _OF_BRANCH,
          body="BulkJobProgress", answers={200: "BulkJob"}, **_POOL),
    Route("cancelBulkJob", "DELETE", _BULK + "/{id}", "bulk",
          "Cancel a bulk job; nothing of it is committed", "fs:ImportFromStorage", _OF_BRANCH,
          answers={204: ""}, **_POOL),
    Route("finishBulkJob", "PUT", _BULK + "/{id}/finish", "bulk",
          "Commit the ranges of a bulk job, as one commit, once", "fs:ImportFromStorage",
          _OF_BRANCH,
          body="BulkJobFinish", answers={201: "Commit"}, **_POOL),
    Route("listStagingTokens", "GET", BRANCH + "/staging/tokens", "staging",
          "The staging tokens of a branch, newest first", "fs:ListObjects", _OF_BRANCH,
          answers={200: "StagingTokenList"}, **_WALK),
    Route("listStagedRows", "GET", BRANCH + "/staging/tokens/{token}/{shard}", "staging",
          "The uncommitted rows of one shard, as they are stored", "fs:ListObjects", _OF_BRANCH,
          (_MANY, Parameter("after", TEXT, description="only paths greater than this")),
          answers={200: "StagedRowList"}, **_POOL),
    Route("listCollectionRoots", "GET", REPO + "/gc/roots", "retention",
          "The roots of a collection that runs on a cluster",
          "retention:PrepareGarbageCollectionUncommitted", _REPOSITORY, (_MANY, _FOLLOWING),
          answers={200: "CollectionRootList"}, **_POOL),
)

_STATES = ("queued", "running", "landing", "done", "failed", "cancelled", "expired")
_JOBS_AMOUNT = {
    "type": "integer",
    "minimum": 1,
    "maximum": limits.jobs_page_count_max,
    "default": limits.jobs_page_count_max,
}
_OWN = (
    Route("previewMerge", "GET", _MERGE + "/preview", "graveler",
          "What a merge would do: counts of this page's paths, and its conflicts in three versions",
          "fs:ListObjects", _REPOSITORY, (PREFIX, AFTER, AMOUNT), answers={200: "MergePreview"},
          **_WALK),
    Route("summarizeObjects", "GET", REF + "/objects/summary", "graveler",
          "Objects and bytes below each child of a prefix", "fs:ListObjects", _REPOSITORY,
          _SUMMARY, answers={200: "ObjectSummaryPage"}, **_WALK),
    Route("summarizeDiff", "GET", REPO + "/refs/{leftRef}/diff/{rightRef}/summary", "graveler",
          "Differences between two refs below each child of a prefix", "fs:ListObjects",
          _REPOSITORY, (*_SUMMARY, _DOTS), answers={200: "DiffSummaryPage"}, **_WALK),
    Route("summarizeUncommitted", "GET", BRANCH + "/diff/summary", "graveler",
          "Uncommitted changes below each child of a prefix", "fs:ListObjects", _REPOSITORY,
          _SUMMARY, answers={200: "DiffSummaryPage"}, **_WALK),
    Route("listJobs", "GET", REPO + "/jobs", "graveler",
          "List jobs of all kinds, newest first", "fs:ReadRepository", _REPOSITORY,
          (Parameter("kind", TEXT, description="only jobs of this kind"),
           Parameter("state", {"type": "string", "enum": ["", *_STATES]},
                     description="only jobs in this state"),
           Parameter("amount", _JOBS_AMOUNT), _FOLLOWING),
          answers={200: "JobList"}, **_WALK),
    Route("getJob", "GET", REPO + "/jobs/{id}", "graveler", "Get a job of any kind",
          "fs:ReadRepository", _REPOSITORY, answers={200: "Job"}, **_POOL),
    Route("cancelJob", "DELETE", REPO + "/jobs/{id}", "graveler",
          "Cancel a job; 409: it has ended, is landing, or waits for a bulk job",
          "fs:UpdateRepository", _REPOSITORY, answers={204: ""}, **_POOL),
)

_RULES = REPO + "/events/rules"
_EVENTS = (
    Route("listEventRules", "GET", _RULES, "events", "List the event rules of a repository",
          "fs:ReadRepository", _REPOSITORY, answers={200: "EventRuleList"}, **_WALK),
    Route("createEventRule", "POST", _RULES, "events",
          "Create a rule: new objects of a bucket are staged on a branch and committed in batches",
          "fs:ImportFromStorage", _REPOSITORY + "/branch/{branch}", body="EventRuleCreation",
          answers={201: "EventRule"}, **_POOL),
    Route("getEventRule", "GET", _RULES + "/{rule}", "events", "Get an event rule",
          "fs:ReadRepository", _REPOSITORY, answers={200: "EventRule"}, **_POINT),
    Route("deleteEventRule", "DELETE", _RULES + "/{rule}", "events", "Delete an event rule",
          "fs:UpdateRepository", _REPOSITORY, answers={204: ""}, **_POOL),
)

_PROTECTION = REPO + "/settings/branch_protection"
_OLDER_PROTECTION = REPO + "/branch_protection"
_MAY_SET = ("branches:SetBranchProtectionRules", _REPOSITORY)
_PROTECTIONS = (
    Route("getBranchProtectionRules", "GET", _PROTECTION, "repositories",
          "Get the branch protection rules", "branches:GetBranchProtectionRules", _REPOSITORY,
          answers={200: "BranchProtectionRules"}, **_POINT),
    Route("setBranchProtectionRules", "PUT", _PROTECTION, "repositories",
          "Replace the branch protection rules", *_MAY_SET, (IF_MATCH,),
          "BranchProtectionRules", {204: ""}, **_POOL),
    Route("internalGetBranchProtectionRules", "GET", _OLDER_PROTECTION, "internal",
          "Get the branch protection rules, for older clients",
          "branches:GetBranchProtectionRules", _REPOSITORY,
          answers={200: "BranchProtectionRules"}, **_POINT),
    Route("internalCreateBranchProtectionRule", "POST", _OLDER_PROTECTION, "internal",
          "Add a branch protection rule, for older clients", *_MAY_SET,
          body="BranchProtectionRule", answers={204: ""}, **_POOL),
    Route("internalDeleteBranchProtectionRule", "DELETE", _OLDER_PROTECTION, "internal",
          "Remove a branch protection rule, for older clients", *_MAY_SET,
          body="BranchProtectionRule", answers={204: ""}, **_POOL),
    Route("createBranchProtectionRulePreflight", "GET", _OLDER_PROTECTION + "/set_allowed",
          "internal", "Whether the caller may set branch protection rules", *_MAY_SET,
          answers={204: ""}, **_LOOP),
)

_GC_RUNS = REPO + "/gc/runs"
_GC_TURNS = REPO + "/gc/turns"
_UPKEEP = (
    Route("orderCollection", "POST", _GC_RUNS, "retention",
          "Begin a collection; with `dry_run`, the default, it deletes nothing",
          "retention:CollectGarbage", _REPOSITORY, body="CollectionOrder",
          answers={202: "TaskCreation"}, **_POOL),
    Route("getCollection", "GET", _GC_RUNS + "/{id}", "retention",
          "The status of a collection", "retention:CollectGarbage", _REPOSITORY,
          answers={200: "CollectionStatus"}, **_POOL),
    Route("undoCollection", "DELETE", _GC_RUNS + "/{id}", "retention",
          "Undo a collection run, before its files are deleted",
          "retention:CollectGarbage", _REPOSITORY, answers={204: ""}, **_POOL),
    Route("condemnCommits", "POST", _GC_RUNS + "/{id}/condemned", "retention",
          "Condemn commits without retention, for a collection that runs on a cluster",
          "retention:CollectGarbage", _REPOSITORY, body="Condemnation",
          answers={200: "Condemned"}, **_POOL),
    Route("sweepCollection", "PUT", _GC_RUNS + "/{id}/sweeping", "retention",
          "Announce that a cluster deletes the files of a run; 409: it must not",
          "retention:CollectGarbage", _REPOSITORY, body="CollectionSweep",
          answers={204: ""}, **_POOL),
    Route("beginCollectionTurn", "POST", _GC_TURNS, "retention",
          "Begin the turn of a collection on a cluster; 409: another collection is running",
          "retention:CollectGarbage", _REPOSITORY, body="CollectionTurnCreation",
          answers={201: "CollectionTurn"}, **_POOL),
    Route("beatCollectionTurn", "PUT", _GC_TURNS + "/{id}", "retention",
          "Send the heartbeat of a turn; 409: the collection must delete nothing more",
          "retention:CollectGarbage", _REPOSITORY, answers={200: "CollectionTurn"}, **_POOL),
    Route("endCollectionTurn", "DELETE", _GC_TURNS + "/{id}", "retention",
          "End the turn of a collection on a cluster", "retention:CollectGarbage", _REPOSITORY,
          answers={204: ""}, **_POOL),
    Route("dumpSubmit", "POST", REPO + "/dump", "repositories",
          "Begin a dump of refs and commits into tables in the repository's folder",
          "fs:DumpRefs", _REPOSITORY, answers={202: "TaskCreation"}, **_POOL),
    Route("dumpStatus", "GET", REPO + "/dump", "repositories", "The status of a dump",
          "fs:DumpRefs", _REPOSITORY, (Parameter("task_id", TEXT, required=True),),
          answers={200: "RepositoryDumpStatus"}, **_POOL),
    Route("dumpRefs", "PUT", REPO + "/refs/dump", "refs", "Dump refs and commits now",
          "fs:DumpRefs", _REPOSITORY, answers={201: "RefsDump"}, **_POOL),
    Route("restoreSubmit", "POST", REPO + "/restore", "repositories",
          "Begin to restore refs and commits from a dump, into a bare repository",
          "fs:RestoreRefs", _REPOSITORY, body="RefsRestore", answers={202: "TaskCreation"},
          **_POOL),
    Route("restoreStatus", "GET", REPO + "/restore", "repositories", "The status of a restore",
          "fs:RestoreRefs", _REPOSITORY, (Parameter("task_id", TEXT, required=True),),
          answers={200: "RepositoryRestoreStatus"}, **_POOL),
    Route("restoreRefs", "PUT", REPO + "/refs/restore", "refs",
          "Restore refs and commits from a dump now, into a bare repository", "fs:RestoreRefs",
          _REPOSITORY, body="RefsRestore", answers={200: ""}, **_POOL),
)
# fmt: on

ROWS: Final = (
    *_SERVICE,
    *_REPOSITORIES,
    *_BRANCHES,
    *_COMMITS,
    *_OBJECTS,
    *_CLUSTER,
    *_OWN,
    *_EVENTS,
    *_PROTECTIONS,
    *_UPKEEP,
)
