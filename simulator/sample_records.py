"""One encoded record of every kind, from which damaged bytes are made.  For tests only."""

from graveler import wire
from graveler.ids import (
    BranchId,
    CommitId,
    JobId,
    MetarangeId,
    PullId,
    RangeId,
    RepositoryId,
    RepositoryUid,
    StagingToken,
)
from graveler.records import (
    Branch,
    BranchState,
    Cleanup,
    Commit,
    Entry,
    Fold,
    Job,
    JobState,
    MultipartUpload,
    PullRequest,
    PullState,
    RangeRef,
    Repository,
    SentSwap,
    Tag,
    UploadAddress,
)

_COMMIT = CommitId("5a" * 32)
_BORN_NS = 1_700_000_000_123_456_789


def encoded_records() -> dict[str, bytes]:
    """The bytes of a record for each `decode_*` of wire.py, by the name after `decode_`."""
    entry = Entry("data/x/y", 12, "c" * 32, _BORN_NS, {"k": "v", "ä": ""})
    pairs = {"owner": "somebody", "": "x"}
    repository = Repository(
        RepositoryId("lake"), RepositoryUid("u1"), "mem://bucket/lake", BranchId("main"), _BORN_NS
    )
    tokens = (StagingToken("t1.4"), StagingToken("t2.4"))
    job = Job(JobId("j1"), "import", JobState.RUNNING, b"p", _BORN_NS, _BORN_NS, 9, error="none")
    commit = Commit("me", "message", _BORN_NS, MetarangeId("00" * 32), pairs, (_COMMIT,), 7, 6)
    pull = PullRequest(
        PullId("vvvvvvh6q00n3aaaaaaa"), "title", "why", "me", BranchId("dev"), BranchId("main"),
        PullState.MERGED, _BORN_NS, _BORN_NS + 1, _COMMIT, 2, _COMMIT, "attempt",
        (SentSwap(_COMMIT, 3, _COMMIT, "t0.4", 1),),
    )  # fmt: skip
    ref = RangeRef(RangeId("ab" * 32), b"a", b"z", 900, 12)
    return {
        "entry": wire.encode_entry(entry),
        "range": wire.encode_range(ref)[1],
        "repository": wire.encode_repository(repository),
        "branch": wire.encode_branch(
            Branch(
                4,
                BranchState.LIVE,
                tokens[0],
                tokens[1:],
                _COMMIT,
                True,
                _BORN_NS,
                25_000,
                "t0.4",
                2,
            )
        ),
        "commit": wire.encode_commit(commit),
        "tag": wire.encode_tag(Tag(_COMMIT)),
        "staged": wire.encode_staged(wire.encode_entry(entry), b"w" * 16),
        "fold": wire.encode_fold(Fold(tokens, _BORN_NS)),
        "cleanup": wire.encode_cleanup(Cleanup(BranchId("main"), _BORN_NS, 1, 2)),
        "upload_address": wire.encode_upload_address(
            UploadAddress(BranchId("main"), "a/b", _BORN_NS)
        ),
        "multipart_upload": wire.encode_multipart_upload(
            MultipartUpload(
                "0" * 20,
                BranchId("main"),
                "a/b",
                "data/c",
                "store",
                _BORN_NS,
                "text/plain",
                pairs,
                "STANDARD_IA",
                wire.encode_entry(entry),
                b"p" * 32,
                _BORN_NS + 1,
                "t0.4",
                "crc32",
            )
        ),
        "job": wire.encode_job(job),
        "pull": wire.encode_pull(pull),
        "pairs": wire.encode_pairs(pairs),
    }
