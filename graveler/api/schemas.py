"""The catalogue of JSON schemas: every request body and every answer, by name.

Validation and the OpenAPI document both read it.  It holds only facts that clients rely on.  The
names are those that clients of this API know.  Pure data.  Used by api/.
"""

from collections.abc import Mapping
from typing import Any, Final

from graveler import limits
from graveler.api import upkeep_schemas
from graveler.api.conditions import RANGE_PATTERN
from graveler.api.schema_words import (
    BOOLEAN,
    FLAG,
    INTEGER,
    PAIRS,
    STRING,
    Schema,
    choice,
    items,
    many,
    of,
    record,
    text,
)

REPOSITORY_PATTERN: Final = "^[a-z0-9][a-z0-9-]{2,62}$"
NAMESPACE_PATTERN: Final = "^(s3|gs|https?|mem|local|transient)://.*$"
_SECONDS_MAX: Final = (2**63 - 1) // limits.SECOND_NS  # records hold 64 bits of nanoseconds
_MESSAGE: Final = {"type": "string", "maxLength": limits.message_length_bytes_max}

_BATCH: Final[dict[str, Any]] = {
    "objects": {"type": "integer", "minimum": 0, "maximum": limits.event_batch_objects_max},
    "seconds": {"type": "integer", "minimum": 1, "maximum": limits.event_batch_seconds_max},
}


def _task(result: Schema, **more: Any) -> Schema:
    """The status of an asynchronous operation."""
    return record(
        "task_id completed update_time",
        **more,
        completed=BOOLEAN,
        update_time={"type": "string", "format": "date-time"},
        status_code=INTEGER,
        error=of("Error"),
        result=result,
    )


def _size(least: int, most: int) -> Schema:
    return {**INTEGER, "minimum": least, "maximum": most}


_RULE: Final = record(
    "pattern", pattern=text("A glob of branch names", maxLength=limits.name_length_max)
)
_CHECKSUM: Final = text(
    "The checksum that the storage returned for the write",
    minLength=1,
    maxLength=limits.checksum_length_bytes_max,
)
_SIZE: Final = {"type": "integer", "minimum": 0, "maximum": limits.object_size_bytes_max}

REQUESTS: Final[Mapping[str, Schema]] = {
    "Setup": record(
        "username",
        "email firstName lastName companyName country",
        key=of("AccessKeyCredentials"),
        featureUpdates=BOOLEAN,
        securityUpdates=BOOLEAN,
    ),
    "AccessKeyCredentials": record("access_key_id secret_access_key"),
    "LoginInformation": record("access_key_id secret_access_key"),
    "StatsEventsList": record("events", events=items({"type": "object"}, 1_000)),
    "RepositoryCreation": record(
        "name storage_namespace",
        "default_branch storage_id",
        name={"type": "string", "pattern": REPOSITORY_PATTERN},
        storage_namespace=text(
            "The place of the repository's files: scheme://bucket/prefix",
            pattern=NAMESPACE_PATTERN,
            maxLength=limits.address_length_bytes_max,
        ),
        sample_data=FLAG,
        read_only=FLAG,
    ),
    "RepositoryMetadataSet": record("metadata", metadata=PAIRS),
    "RepositoryMetadataKeys": record("keys", keys=items(STRING, limits.metadata_pairs_max)),
    "CommitCreation": record(
        "message",
        message=_MESSAGE,
        metadata=PAIRS,
        date={"type": "integer", "format": "int64", "minimum": 0, "maximum": _SECONDS_MAX},
        allow_empty=FLAG,
        force=FLAG,
    ),
    "CommitOverrides": record("", message=_MESSAGE, metadata=PAIRS),
    "CommitRecordCreation": record(
        "commit_id version committer message metarange_id creation_date parents generation",
        version={"type": "integer", "minimum": 0, "maximum": 1},
        message=_MESSAGE,
        creation_date={
            "type": "integer",
            "format": "int64",
            "minimum": -_SECONDS_MAX,
            "maximum": _SECONDS_MAX,
        },
        parents=items(STRING, 64),
        metadata=PAIRS,
        generation={"type": "integer", "format": "int64", "minimum": 1, "maximum": 1 << 62},
        force=FLAG,
    ),
    "RefsRestore": record(
        "commits_meta_range_id tags_meta_range_id branches_meta_range_id", force=FLAG
    ),
    "Merge": record(
        "",
        "strategy",
        message=_MESSAGE,
        metadata=PAIRS,
        force=FLAG,
        allow_empty=FLAG,
        squash_merge=FLAG,
        resolutions={
            "type": "object",
            "additionalProperties": choice("source", "dest"),
            "description": (
                "The side that conflicts below a prefix take, before the strategy; the longest "
                "prefix of a path decides. lakeFS has no such field"
            ),
        },
    ),
    "RevertCreation": record(
        "ref parent_number",
        parent_number={"type": "integer", "minimum": 0, "maximum": 64},
        commit_overrides=of("CommitOverrides"),
        allow_empty=FLAG,
        force=FLAG,
    ),
    "CherryPickCreation": record(
        "ref",
        parent_number={"type": "integer", "minimum": 0, "maximum": 64},
        commit_overrides=of("CommitOverrides"),
        force=FLAG,
    ),
    "PathList": record("paths", paths=items(STRING)),
    "ObjectStageCreation": record(
        "physical_address checksum size_bytes",
        "content_type",
        checksum=_CHECKSUM,
        size_bytes=_SIZE,
        mtime={"type": "integer", "format": "int64", "minimum": 0, "maximum": _SECONDS_MAX},
        metadata=PAIRS,
        force=FLAG,
    ),
    "ObjectCopyCreation": record("src_path", "src_ref", force=FLAG, shallow=FLAG),
    "UpdateObjectUserMetadata": record("set", set=PAIRS),
    "StagingLocation": record(
        "",
        "physical_address",
        presigned_url={"type": "string", "nullable": True},
        presigned_url_expiry=INTEGER,
    ),
    "StagingMetadata": record(
        "staging checksum size_bytes",
        "content_type",
        staging=of("StagingLocation"),
        checksum=_CHECKSUM,
        size_bytes=_SIZE,
        user_metadata=PAIRS,
        mtime=INTEGER,
        force=FLAG,
    ),
    "PartsUploadAddress": record("physical_address"),
    "CopyPartSource": record(
        "repository ref path",
        range={
            "type": "string",
            "pattern": f"^{RANGE_PATTERN.pattern}$",
            "maxLength": limits.range_header_length_max,
        },
    ),
    "UploadPartCopyFrom": record("physical_address copy_source", copy_source=of("CopyPartSource")),
    "UploadedPart": record(
        "part_number etag",
        part_number={
            "type": "integer",
            "minimum": 1,
            "maximum": limits.multipart_parts_count_max,
        },
        etag={"type": "string", "maxLength": limits.checksum_length_bytes_max},
    ),
    "CompletePresignMultipartUpload": record(
        "physical_address parts",
        "content_type",
        parts=items(of("UploadedPart"), limits.multipart_parts_count_max),
        user_metadata=PAIRS,
        force=FLAG,
    ),
    "ImportLocation": record("type path destination", type=choice("common_prefix", "object")),
    "ImportCreation": record(
        "paths commit",
        paths=items(of("ImportLocation"), limits.import_paths_count_max),
        commit=of("CommitCreation"),
        force=FLAG,
    ),
    "BulkJobCreation": record(
        "mode",
        "prefix",
        mode=choice("replace", "merge", "commit", "pack"),
        breaks=of("NewBreaks"),
        id=text("An id that the caller chooses, to begin the same job again", maxLength=64),
        purpose=text(
            "Free text; 409: a job with the same id was begun for another purpose",
            maxLength=limits.bulk_purpose_length_max,
        ),
        force=FLAG,
    ),
    "NewBreaks": record(
        "min_size max_size raggedness salt",
        min_size=_size(0, limits.range_size_bytes_max),
        max_size=_size(1, limits.range_size_bytes_max),
        raggedness=_size(1, limits.range_raggedness_max),
        salt=text("Base64", maxLength=limits.range_salt_bytes_max * 2),
    ),
    "BreakParametersSet": record(
        "expected breaks", expected=of("NewBreaks"), breaks=of("NewBreaks"), force=FLAG
    ),
    "BulkJobProgress": record(
        "",
        progress={"type": "integer", "format": "int64", "minimum": 0, "maximum": 1 << 62},
    ),
    "BulkJobFinish": record(
        "metarange request_id message",
        metarange=text("Its file is in the repository's folder", pattern="^[0-9a-f]{64}$"),
        request_id=text("Equal in every attempt", minLength=1, maxLength=128),
        message=_MESSAGE,
        metadata=PAIRS,
    ),
    "EventRuleCreation": record("branch bucket", "prefix suffix path marker", **_BATCH),
    "BranchProtectionRule": _RULE,
    "BranchProtectionRules": items(of("BranchProtectionRule"), limits.protection_rules_max),
    **upkeep_schemas.REQUESTS,
}

ANSWERS: Final[Mapping[str, Schema]] = {
    "Error": record("message"),
    "Pagination": record(
        "has_more next_offset results max_per_page",
        has_more=BOOLEAN,
        results=INTEGER,
        max_per_page=INTEGER,
    ),
    "SetupState": record(
        "state",
        state=choice("initialized", "not_initialized"),
        comm_prefs_missing=BOOLEAN,
        login_config={"type": "object"},
    ),
    "CredentialsWithSecret": record(
        "access_key_id secret_access_key creation_date", creation_date=INTEGER
    ),
    "AuthenticationToken": record("token", token_expiration=INTEGER),
    "AuthCapabilities": record("", invite_user=BOOLEAN),
    "User": record("id creation_date", "friendly_name email", creation_date=INTEGER),
    "CurrentUser": record("user", user=of("User")),
    "VersionConfig": record("", "version version_context"),
    "StorageConfig": record(
        "blockstore_type blockstore_namespace_example blockstore_namespace_ValidityRegex",
        "blockstore_description blockstore_id default_namespace_prefix import_validity_regex",
        pre_sign_support=BOOLEAN,
        pre_sign_support_ui=BOOLEAN,
        pre_sign_multipart_upload=BOOLEAN,
        import_support=BOOLEAN,
    ),
    "Config": record(
        "",
        version_config=of("VersionConfig"),
        storage_config=of("StorageConfig"),
        storage_config_list=items(of("StorageConfig")),
        ui_config={"type": "object"},
        capabilities_config={"type": "object"},
    ),
    "Repository": record(
        "id creation_date default_branch storage_namespace",
        "storage_id",
        creation_date=INTEGER,
        read_only=BOOLEAN,
    ),
    "RepositoryList": many("Repository"),
    "RepositoryMetadata": PAIRS,
    "Commit": record(
        "id parents committer message creation_date meta_range_id",
        parents=items(STRING),
        creation_date=INTEGER,
        metadata=PAIRS,
        generation=INTEGER,
        version=INTEGER,
    ),
    "CommitList": many("Commit"),
    "FindMergeBaseResult": record("source_commit_id destination_commit_id base_commit_id"),
    "MergeResult": record("reference"),
    "ConflictVersions": record(
        "path",
        "",
        path=text("Its three versions follow; an absent one: the path is not there"),
        base=of("ObjectStats"),
        source=of("ObjectStats"),
        destination=of("ObjectStats"),
    ),
    "MergePreview": record(
        "source_commit_id destination_commit_id base_commit_id counts complete results pagination",
        base_commit_id=text("Empty: unrelated histories"),
        counts=record(
            "added changed removed conflict",
            added=INTEGER,
            changed=INTEGER,
            removed=INTEGER,
            conflict=INTEGER,
        ),
        complete=BOOLEAN,
        results=items(of("ConflictVersions")),
        pagination=of("Pagination"),
    ),
    "DiffObjectStat": record("checksum mtime", "content_type", mtime=INTEGER, metadata=PAIRS),
    "Diff": record(
        "type path path_type",
        type=choice("added", "removed", "changed", "conflict", "prefix_changed"),
        path_type=choice("common_prefix", "object"),
        size_bytes=INTEGER,
        right=of("DiffObjectStat"),
    ),
    "DiffList": many("Diff"),
    "ObjectStats": record(
        "path path_type physical_address checksum mtime",
        "content_type",
        path_type=choice("common_prefix", "object"),
        physical_address_expiry=INTEGER,
        size_bytes=INTEGER,
        mtime=INTEGER,
        metadata=PAIRS,
    ),
    "ObjectStatsList": many("ObjectStats"),
    "PresignMultipartUpload": record("upload_id physical_address", presigned_urls=items(STRING)),
    "PresignedPart": record("presigned_url"),
    "UnderlyingObjectProperties": record("", storage_class={"type": "string", "nullable": True}),
    "ObjectError": record("status_code message", "path", status_code=INTEGER),
    "ObjectErrorList": record("errors", errors=items(of("ObjectError"))),
    "StorageURI": record("location"),
    "Breaks": record(
        "min_size max_size raggedness salt",
        min_size=INTEGER,
        max_size=INTEGER,
        raggedness=INTEGER,
        salt=text("Base64"),
    ),
    "StagingToken": record("token shards sealed", shards=INTEGER, sealed=BOOLEAN),
    "StagingTokenList": record("results", results=items(of("StagingToken"))),
    "StagedRow": record(
        "path order",
        order=INTEGER,
        value=text("The framed entry as in a range, in Base64; absent: a deletion"),
    ),
    "StagedRowList": many("StagedRow"),
    "BulkJob": record(
        "id state branch mode prefix base_commit base_metarange storage_namespace breaks",
        "commit error purpose",
        state=choice("running", "landing", "done", "failed", "cancelled", "expired"),
        mode=choice("replace", "merge", "commit", "pack"),
        breaks=of("Breaks"),
        staging_tokens=items(of("StagingToken")),
        creation_date=INTEGER,
        expiration_date=INTEGER,
        update_time={"type": "string", "format": "date-time"},
        heartbeat_seconds=INTEGER,
        progress=INTEGER,
        message=text("The message of a commit that was handed over"),
        metadata=PAIRS,
    ),
    "EventRule": record(
        "id branch bucket prefix suffix path marker creation_date", creation_date=INTEGER, **_BATCH
    ),
    "EventRuleList": record("results", results=items(of("EventRule"))),
    "ObjectSummary": record("path objects", objects=INTEGER, size_bytes=INTEGER),
    "ObjectSummaryPage": record(
        "commit_id complete results pagination",
        complete=BOOLEAN,
        results=items(of("ObjectSummary")),
        pagination=of("Pagination"),
    ),
    "DiffSummary": record(
        "path added changed removed conflict",
        added=INTEGER,
        changed=INTEGER,
        removed=INTEGER,
        conflict=INTEGER,
        bytes_added=INTEGER,
        bytes_removed=INTEGER,
    ),
    "DiffSummaryPage": record(
        "left_commit_id complete results pagination",
        "right_commit_id",
        right_commit_id=text("Absent: what is uncommitted"),
        complete=BOOLEAN,
        results=items(of("DiffSummary")),
        pagination=of("Pagination"),
    ),
    "Job": record(
        "id kind state create_time update_time cancellable attempts",
        "branch",
        kind=text("commit, merge, import, copy, bulk, landing, dump, collection, batch, …"),
        state=choice("queued", "running", "landing", "done", "failed", "cancelled", "expired"),
        create_time={"type": "string", "format": "date-time"},
        update_time={"type": "string", "format": "date-time"},
        cancellable=BOOLEAN,
        attempts=INTEGER,
        progress=record(
            "done unit per_second",
            done=INTEGER,
            unit=choice("objects", "rows"),
            per_second={"type": "number"},
        ),
        waits_for=text("The bulk job that makes the commit"),
        commit_id=text("The commit that the job made"),
        error=record("message code status_code", status_code=INTEGER),
    ),
    "JobList": many("Job"),
    "TaskCreation": record("id"),
    "CommitStatus": _task(of("Commit"), waits_for=text("The bulk job that must commit these rows")),
    "MergeStatus": _task(of("MergeResult")),
    **upkeep_schemas.ANSWERS,
    "RefsDump": record("commits_meta_range_id tags_meta_range_id branches_meta_range_id"),
    "RepositoryDumpStatus": record(
        "id done update_time",
        "error",
        done=BOOLEAN,
        update_time={"type": "string", "format": "date-time"},
        refs=of("RefsDump"),
    ),
    "RepositoryRestoreStatus": record(
        "id done update_time",
        "error",
        done=BOOLEAN,
        update_time={"type": "string", "format": "date-time"},
    ),
    "ImportCreationResponse": record("id"),
    "ImportStatus": record(
        "completed update_time",
        "metarange_id",
        completed=BOOLEAN,
        update_time={"type": "string", "format": "date-time"},
        ingested_objects=INTEGER,
        commit=of("Commit"),
        error=of("Error"),
    ),
}

CATALOGUE: Final[Mapping[str, Schema]] = {**REQUESTS, **ANSWERS}
