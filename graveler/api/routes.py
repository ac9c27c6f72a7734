"""The table of routes: the only module that declares API operations.

Routing, validation, authentication and the OpenAPI document read this table.  No other module
declares a route below /api/v1.  A row that needs no credentials is marked as such, and a test fixes
the exact list of these rows.  Pure data.
"""

from typing import Any, Final

from graveler import limits
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
    Runs,
)

API_PREFIX: Final = "/api/v1"
REPO: Final = "/repositories/{repository}"
BRANCH: Final = REPO + "/branches/{branch}"
REF: Final = REPO + "/refs/{ref}"
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


# The formatter is off so that the table keeps one row for each operation.
# fmt: off
_SERVICE = (
    Route("healthCheck", "GET", "/healthcheck", "health", "Whether the service runs",
          answers={204: ""}, **_OPEN, **_LOOP),
    Route("getSetupState", "GET", "/setup_lakefs", "setup", "Whether an administrator exists",
          answers={200: "SetupState"}, **_OPEN, **_POINT),
    Route("setup", "POST", "/setup_lakefs", "setup", "Create the administrator, once",
          body="Setup", answers={200: "CredentialsWithSecret"}, runs=Runs.POOL,
          authenticated=False),
    Route("login", "POST", "/auth/login", "auth", "A session for a credential",
          body="LoginInformation", answers={200: "AuthenticationToken"}, **_OPEN, **_POOL),
    Route("getAuthCapabilities", "GET", "/auth/capabilities", "auth",
          "What can be done about accounts", answers={200: "AuthCapabilities"}, **_OPEN, **_LOOP),
    Route("getCurrentUser", "GET", "/user", "auth", "Who is asking",
          "auth:ReadUser", answers={200: "CurrentUser"}, **_LOOP),
    Route("getConfig", "GET", "/config", "config", "What clients should know",
          "fs:ReadConfig", answers={200: "Config"}, **_LOOP),
    Route("getLakeFSVersion", "GET", "/config/version", "config", "The version of the API",
          "fs:ReadConfig", answers={200: "VersionConfig"}, **_LOOP),
    Route("getStorageConfig", "GET", "/config/storage", "config", "What the storage can do",
          "fs:ReadConfig", answers={200: "StorageConfig"}, **_LOOP),
    Route("postStatsEvents", "POST", "/statistics", "statistics",
          "Accepted and dropped: nothing is collected", "", body="StatsEventsList",
          answers={204: ""}, **_LOOP),
)

_REPOSITORIES = (
    Route("listRepositories", "GET", "/repositories", "repositories", "List repositories",
          "fs:ListRepositories", parameters=(*PAGE, Parameter("search", TEXT)),
          answers={200: "RepositoryList"}, **_WALK),
    Route("createRepository", "POST", "/repositories", "repositories", "Create a repository",
          "fs:CreateRepository", "repository/{name}",
          (Parameter("bare", SWITCH, description="without branch and commit"),),
          "RepositoryCreation", {201: "Repository"}, **_POOL),
    Route("getRepository", "GET", REPO, "repositories", "One repository",
          "fs:ReadRepository", _REPOSITORY, answers={200: "Repository"}, **_POINT),
    Route("deleteRepository", "DELETE", REPO, "repositories",
          "Delete a repository; its objects stay", "fs:DeleteRepository", _REPOSITORY,
          (FORCE,), answers={204: ""}, **_POOL),
    Route("getRepositoryMetadata", "GET", REPO + "/metadata", "repositories",
          "The repository's own pairs", "fs:ReadRepository", _REPOSITORY,
          answers={200: "RepositoryMetadata"}, **_POINT),
    Route("setRepositoryMetadata", "POST", REPO + "/metadata", "repositories",
          "Add or replace pairs", "fs:UpdateRepository", _REPOSITORY,
          body="RepositoryMetadataSet", answers={204: ""}, **_POOL),
    Route("deleteRepositoryMetadata", "DELETE", REPO + "/metadata", "repositories",
          "Remove pairs by key", "fs:UpdateRepository", _REPOSITORY,
          body="RepositoryMetadataKeys", answers={204: ""}, **_POOL),
    Route("getBreakParameters", "GET", _BREAKS, "repositories", "Where ranges end",
          "fs:ReadRepository", _REPOSITORY, answers={200: "Breaks"}, **_POINT),
    Route("setBreakParameters", "PUT", _BREAKS, "repositories",
          "Have ranges end elsewhere from now on; 412 if the parameters are not the expected ones",
          "fs:UpdateRepository", _REPOSITORY, body="BreakParametersSet",
          answers={200: "Breaks"}, **_POOL),
    Route("getMetaRange", "GET", REPO + "/metadata/meta_range/{meta_range}", "metadata",
          "Where a metarange lies", "fs:ReadRepository", _REPOSITORY,
          answers={200: "StorageURI"}, **_POOL),
    Route("getRange", "GET", REPO + "/metadata/range/{range}", "metadata",
          "Where a range lies", "fs:ReadRepository", _REPOSITORY, answers={200: "StorageURI"},
          **_POOL),
    Route("getMetadataObject", "GET", REPO + "/metadata/object/{type}/{object_id}", "metadata",
          "The bytes of a range or metarange", "fs:ListObjects", _REPOSITORY, (PRESIGN,),
          answers={200: "", 302: ""}, runs=Runs.STREAM),
)

_BRANCHES = (
    Route("listBranches", "GET", REPO + "/branches", "branches", "List branches",
          "fs:ListBranches", _REPOSITORY, (*PAGE, Parameter("show_hidden", SWITCH)),
          answers={200: "RefList"}, **_WALK),
    Route("createBranch", "POST", REPO + "/branches", "branches",
          "Create a branch; answers with the bare commit id", "fs:CreateBranch",
          _REPOSITORY + "/branch/{name}", body="BranchCreation", answers={201: ""}, **_POOL),
    Route("getBranch", "GET", BRANCH, "branches", "One branch and its head",
          "fs:ReadBranch", _OF_BRANCH, answers={200: "Ref"}, **_POINT),
    Route("deleteBranch", "DELETE", BRANCH, "branches", "Delete a branch",
          "fs:DeleteBranch", _OF_BRANCH, (FORCE,), answers={204: ""}, **_POOL),
    Route("resetBranch", "PUT", BRANCH, "branches",
          "Drop uncommitted changes: all, of a path, below a prefix", "fs:RevertBranch",
          _OF_BRANCH, body="ResetCreation", answers={204: ""}, **_POOL),
    Route("hardResetBranch", "PUT", BRANCH + "/hard_reset", "branches",
          "Move the head of a clean branch", "fs:RevertBranch", _OF_BRANCH,
          (Parameter("ref", TEXT, required=True), FORCE), answers={204: ""}, **_POOL),
    Route("diffBranch", "GET", BRANCH + "/diff", "branches", "Uncommitted changes",
          "fs:ListObjects", _REPOSITORY, (PREFIX, AFTER, AMOUNT, DELIMITER),
          answers={200: "DiffList"}, **_WALK),
    Route("revertBranch", "POST", BRANCH + "/revert", "branches",
          "Commit the opposite of a commit", "fs:CreateCommit", _OF_BRANCH,
          body="RevertCreation", answers={204: ""}, **_POOL),
    Route("cherryPick", "POST", BRANCH + "/cherry-pick", "branches",
          "Commit the change of another commit", "fs:CreateCommit", _OF_BRANCH,
          body="CherryPickCreation", answers={201: "Commit"}, **_POOL),
)

_TAGS = (
    Route("listTags", "GET", REPO + "/tags", "tags", "List tags",
          "fs:ListTags", _REPOSITORY, PAGE, answers={200: "RefList"}, **_WALK),
    Route("createTag", "POST", REPO + "/tags", "tags", "Name a commit, for good",
          "fs:CreateTag", _REPOSITORY + "/tag/{id}", body="TagCreation",
          answers={201: "Ref"}, **_POOL),
    Route("getTag", "GET", REPO + "/tags/{tag}", "tags", "One tag",
          "fs:ReadTag", _REPOSITORY + "/tag/{tag}", answers={200: "Ref"}, **_POINT),
    Route("deleteTag", "DELETE", REPO + "/tags/{tag}", "tags", "Delete a tag",
          "fs:DeleteTag", _REPOSITORY + "/tag/{tag}", (FORCE,), answers={204: ""}, **_POOL),
)

_COMMITS = (
    Route("commit", "POST", BRANCH + "/commits", "commits", "Commit what is uncommitted",
          "fs:CreateCommit", _OF_BRANCH,
          (Parameter("source_metarange", TEXT, description="commit this instead"),),
          "CommitCreation", {201: "Commit"}, **_POOL),
    Route("commitAsync", "POST", BRANCH + "/commits/async", "commits",
          "Have what is uncommitted committed, without waiting", "fs:CreateCommit", _OF_BRANCH,
          (Parameter("source_metarange", TEXT, description="commit this instead"),),
          "CommitCreation", {202: "TaskCreation"}, **_POOL),
    Route("commitAsyncStatus", "GET", BRANCH + "/commits/async/{id}/status", "commits",
          "What became of such a commit", "fs:ReadBranch", _OF_BRANCH,
          answers={200: "CommitStatus"}, **_POOL),
    Route("getCommit", "GET", REPO + "/commits/{commitId}", "commits",
          "One commit, by any ref expression", "fs:ReadCommit", _REPOSITORY,
          answers={200: "Commit"}, **_POINT),
    Route("CreateCommitRecord", "POST", REPO + "/commits", "commits",
          "Insert a commit made elsewhere; its id must be its hash", "fs:CreateCommit",
          _REPOSITORY, body="CommitRecordCreation", answers={204: ""}, **_POOL),
    Route("logCommits", "GET", REF + "/commits", "refs", "History, newest first",
          "fs:ListCommits", _REPOSITORY,
          (AFTER, AMOUNT, _array("objects", "commits that change one of these paths"),
           _array("prefixes", "commits that change something below one of these"),
           Parameter("limit", SWITCH, description="the page ends the listing"),
           Parameter("first_parent", SWITCH),
           Parameter("since", {"type": "string", "format": "date-time"}),
           Parameter("stop_at", TEXT, description="the last commit to show")),
          answers={200: "CommitList"}, **_WALK),
    Route("diffRefs", "GET", REPO + "/refs/{leftRef}/diff/{rightRef}", "refs",
          "What differs between two refs", "fs:ListObjects", _REPOSITORY,
          (AFTER, AMOUNT, PREFIX, DELIMITER,
           Parameter("type", {"type": "string", "enum": ["two_dot", "three_dot"],
                              "default": "three_dot"}),
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
          "Have a ref merged into a branch, without waiting", "fs:CreateCommit",
          _REPOSITORY + "/branch/{destinationBranch}", body="Merge",
          answers={202: "TaskCreation"}, **_POOL),
    Route("mergeIntoBranchAsyncStatus", "GET", _MERGE + "/async/{id}/status", "refs",
          "What became of such a merge", "fs:ReadBranch",
          _REPOSITORY + "/branch/{destinationBranch}", answers={200: "MergeStatus"}, **_POOL),
)

_OBJECTS = (
    Route("getObject", "GET", REF + "/objects", "objects", "The bytes of an object",
          "fs:ReadObject", _OF_OBJECT, (PATH, RANGE, IF_NONE_MATCH, PRESIGN),
          answers={200: "", 206: "", 302: "", 304: ""}, runs=Runs.STREAM),
    Route("headObject", "HEAD", REF + "/objects", "objects", "An object without its bytes",
          "fs:ReadObject", _OF_OBJECT, (PATH, RANGE), answers={200: "", 206: ""}, **_POINT),
    Route("statObject", "GET", REF + "/objects/stat", "objects", "What a path holds",
          "fs:ReadObject", _OF_OBJECT, (PATH, USER_METADATA, PRESIGN),
          answers={200: "ObjectStats"}, **_POINT),
    Route("getUnderlyingProperties", "GET", REF + "/objects/underlyingProperties", "objects",
          "What the storage says of an object", "fs:ReadObject", _OF_OBJECT, (PATH,),
          answers={200: "UnderlyingObjectProperties"}, **_POOL),
    Route("listObjects", "GET", REF + "/objects/ls", "objects", "List objects and prefixes",
          "fs:ListObjects", _REPOSITORY, (USER_METADATA, PRESIGN, *PAGE, DELIMITER),
          answers={200: "ObjectStatsList"}, **_WALK),
    Route("uploadObject", "POST", BRANCH + "/objects", "objects",
          "Upload an object: raw, or multipart/form-data with one part `content`",
          "fs:WriteObject", _OF_OBJECT,
          (PATH, Parameter("storageClass", TEXT), FORCE, IF_NONE_MATCH, IF_MATCH),
          answers={201: "ObjectStats"}, runs=Runs.STREAM),
    Route("stageObject", "PUT", BRANCH + "/objects", "objects",
          "Stage an object by the address of its bytes, which lie there already",
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
          "Replace an object's pairs", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "UpdateObjectUserMetadata", {204: ""}, **_POOL),
    Route("getPhysicalAddress", "GET", BRANCH + "/staging/backing", "staging",
          "An address to write to, for one path", "fs:WriteObject", _OF_OBJECT,
          (PATH, PRESIGN, IF_NONE_MATCH), answers={200: "StagingLocation"}, **_POOL),
    Route("linkPhysicalAddress", "PUT", BRANCH + "/staging/backing", "staging",
          "Link what was written to such an address", "fs:WriteObject", _OF_OBJECT,
          (PATH, IF_NONE_MATCH, IF_MATCH), "StagingMetadata", {200: "ObjectStats"}, **_POOL),
    Route("createPresignMultipartUpload", "POST", _PARTS, "staging",
          "Begin an upload in parts, with URLs for them", "fs:WriteObject", _OF_OBJECT,
          (PATH, Parameter("parts", {"type": "integer"}, description="how many URLs")),
          answers={201: "PresignMultipartUpload"}, **_POOL),
    Route("uploadPart", "PUT", _PARTS + "/{uploadId}/parts/{partNumber}", "staging",
          "A URL for one part", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "PartsUploadAddress", {200: "PresignedPart"}, **_POOL),
    Route("completePresignMultipartUpload", "PUT", _PARTS + "/{uploadId}", "staging",
          "Join the parts and link the object", "fs:WriteObject", _OF_OBJECT,
          (PATH, IF_NONE_MATCH, IF_MATCH), "CompletePresignMultipartUpload",
          {200: "ObjectStats"}, **_POOL),
    Route("abortPresignMultipartUpload", "DELETE", _PARTS + "/{uploadId}", "staging",
          "Forget an upload and its parts", "fs:WriteObject", _OF_OBJECT, (PATH,),
          "PartsUploadAddress", {204: ""}, **_POOL),
    Route("importStart", "POST", BRANCH + "/import", "import",
          "Import objects in place, as one commit", "fs:ImportFromStorage", _OF_BRANCH,
          body="ImportCreation", answers={202: "ImportCreationResponse"}, **_POOL),
    Route("importStatus", "GET", BRANCH + "/import", "import", "How far an import is",
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
    description="how many to return; perhaps fewer, though more follow",
)
_FOLLOWING = Parameter("after", TEXT, description="next_offset of the page before")
_CLUSTER = (
    Route("beginBulkJob", "POST", _BULK, "bulk",
          "Begin a job of a cluster that writes ranges itself", "fs:ImportFromStorage", _OF_BRANCH,
          body="BulkJobCreation", answers={201: "BulkJob"}, **_POOL),
    Route("getBulkJob", "GET", _BULK + "/{id}", "bulk", "How far a bulk job is",
          "fs:ReadBranch", _OF_BRANCH, answers={200: "BulkJob"}, **_POINT),
    Route("beatBulkJob", "PUT", _BULK + "/{id}", "bulk",
          "Show that a bulk job is alive; 409: it is to stop", "fs:ImportFromStorage", _OF_BRANCH,
          body="BulkJobProgress", answers={200: "BulkJob"}, **_POOL),
    Route("cancelBulkJob", "DELETE", _BULK + "/{id}", "bulk",
          "Cancel a bulk job: nothing of it lands", "fs:ImportFromStorage", _OF_BRANCH,
          answers={204: ""}, **_POOL),
    Route("finishBulkJob", "PUT", _BULK + "/{id}/finish", "bulk",
          "Land what a bulk job wrote, as one commit, once", "fs:ImportFromStorage", _OF_BRANCH,
          body="BulkJobFinish", answers={201: "Commit"}, **_POOL),
    Route("listStagingTokens", "GET", BRANCH + "/staging/tokens", "staging",
          "Where the branch's uncommitted rows stand, newest first", "fs:ListObjects", _OF_BRANCH,
          answers={200: "StagingTokenList"}, **_WALK),
    Route("listStagedRows", "GET", BRANCH + "/staging/tokens/{token}/{shard}", "staging",
          "Uncommitted rows of one shard, as they are stored", "fs:ListObjects", _OF_BRANCH,
          (_MANY, Parameter("after", TEXT, description="only paths greater than this")),
          answers={200: "StagedRowList"}, **_POOL),
    Route("listCollectionRoots", "GET", REPO + "/gc/roots", "retention",
          "What is in use, for a collection that runs elsewhere",
          "retention:PrepareGarbageCollectionUncommitted", _REPOSITORY, (_MANY, _FOLLOWING),
          answers={200: "CollectionRootList"}, **_POOL),
)

_RULES = REPO + "/events/rules"
_EVENTS = (
    Route("listEventRules", "GET", _RULES, "events", "What the repository takes in of buckets",
          "fs:ReadRepository", _REPOSITORY, answers={200: "EventRuleList"}, **_WALK),
    Route("createEventRule", "POST", _RULES, "events",
          "Stage on a branch, and commit in batches, what arrives in a bucket",
          "fs:ImportFromStorage", _REPOSITORY + "/branch/{branch}", body="EventRuleCreation",
          answers={201: "EventRule"}, **_POOL),
    Route("getEventRule", "GET", _RULES + "/{rule}", "events", "One rule",
          "fs:ReadRepository", _REPOSITORY, answers={200: "EventRule"}, **_POINT),
    Route("deleteEventRule", "DELETE", _RULES + "/{rule}", "events", "End a rule",
          "fs:UpdateRepository", _REPOSITORY, answers={204: ""}, **_POOL),
)

_GC_RULES = REPO + "/settings/gc_rules"
_GC_RUNS = REPO + "/gc/runs"
_GC_TURNS = REPO + "/gc/turns"
_UPKEEP = (
    Route("getGCRules", "GET", _GC_RULES, "repositories", "For how long commits are kept",
          "retention:GetGarbageCollectionRules", _REPOSITORY,
          answers={200: "GarbageCollectionRules"}, **_POINT),
    Route("setGCRules", "PUT", _GC_RULES, "repositories", "Replace the rule of retention",
          "retention:SetGarbageCollectionRules", _REPOSITORY,
          body="GarbageCollectionRules", answers={204: ""}, **_POOL),
    Route("deleteGCRules", "DELETE", _GC_RULES, "repositories", "Take the rule away",
          "retention:SetGarbageCollectionRules", _REPOSITORY, answers={204: ""}, **_POOL),
    Route("orderCollection", "POST", _GC_RUNS, "retention",
          "Have garbage collected; unless told otherwise only find out what would be",
          "retention:CollectGarbage", _REPOSITORY, body="CollectionOrder",
          answers={202: "TaskCreation"}, **_POOL),
    Route("getCollection", "GET", _GC_RUNS + "/{id}", "retention",
          "What became of such an order", "retention:CollectGarbage", _REPOSITORY,
          answers={200: "CollectionStatus"}, **_POOL),
    Route("undoCollection", "DELETE", _GC_RUNS + "/{id}", "retention",
          "Take back what a run condemned, until its files are deleted",
          "retention:CollectGarbage", _REPOSITORY, answers={204: ""}, **_POOL),
    Route("condemnCommits", "POST", _GC_RUNS + "/{id}/condemned", "retention",
          "Condemn commits that retention lets go, for a collection that runs elsewhere",
          "retention:CollectGarbage", _REPOSITORY, body="Condemnation",
          answers={200: "Condemned"}, **_POOL),
    Route("sweepCollection", "PUT", _GC_RUNS + "/{id}/sweeping", "retention",
          "Say that the files of such a run are about to be deleted; 409: they must not be",
          "retention:CollectGarbage", _REPOSITORY, body="CollectionSweep",
          answers={204: ""}, **_POOL),
    Route("beginCollectionTurn", "POST", _GC_TURNS, "retention",
          "Begin a collection on a cluster; 409: another collection is on its way",
          "retention:CollectGarbage", _REPOSITORY, body="CollectionTurnCreation",
          answers={201: "CollectionTurn"}, **_POOL),
    Route("beatCollectionTurn", "PUT", _GC_TURNS + "/{id}", "retention",
          "Say that such a collection is alive; 409: it must delete nothing more",
          "retention:CollectGarbage", _REPOSITORY, answers={200: "CollectionTurn"}, **_POOL),
    Route("endCollectionTurn", "DELETE", _GC_TURNS + "/{id}", "retention",
          "End the turn of such a collection", "retention:CollectGarbage", _REPOSITORY,
          answers={204: ""}, **_POOL),
    Route("dumpSubmit", "POST", REPO + "/dump", "repositories",
          "Have refs and commits dumped into tables of the repository's folder",
          "fs:DumpRefs", _REPOSITORY, answers={202: "TaskCreation"}, **_POOL),
    Route("dumpStatus", "GET", REPO + "/dump", "repositories", "What became of such a dump",
          "fs:DumpRefs", _REPOSITORY, (Parameter("task_id", TEXT, required=True),),
          answers={200: "RepositoryDumpStatus"}, **_POOL),
    Route("dumpRefs", "PUT", REPO + "/refs/dump", "refs", "Dump refs and commits now",
          "fs:DumpRefs", _REPOSITORY, answers={201: "RefsDump"}, **_POOL),
)
# fmt: on

ROUTES: Final = (
    *_SERVICE,
    *_REPOSITORIES,
    *_BRANCHES,
    *_TAGS,
    *_COMMITS,
    *_OBJECTS,
    *_CLUSTER,
    *_EVENTS,
    *_UPKEEP,
)
UNAUTHENTICATED: Final = tuple(route.operation for route in ROUTES if not route.authenticated)
