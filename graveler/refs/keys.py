"""Partitions and keys of all records, which docs/reference/format.md §7 lists.

Only this module spells these bytes, except those of staged rows (staging/area.py).
"""

from graveler.core import limits
from graveler.core.identity import shard
from graveler.core.ids import BranchId, CommitId, JobId, PullId, StagingToken, TagId
from graveler.core.records import Repository

REPOSITORIES = b"repos"
WATCH = b"watch"
NAMESPACES = b"namespaces"
DELETED = b"deleted"
UNPURGED = b"unpurged"

BRANCHES = b"b/"
DELETED_BRANCHES = b"z/"
TAGS = b"t/"
COMMITS = b"c/"
GRAPH = b"v/"
FOLDS = b"f/"
UPLOADS = b"l/"
MULTIPART_UPLOADS = b"y/"
PART_CHECKSUMS = b"d/"
SETTINGS = b"s/"
JOBS = b"j/"
JOB_ORDERS = b"q/"
JOB_STEPS = b"k/"
CLEANUPS = b"x/"
METADATA = b"m/"
CONDEMNED = b"g/"
UNREACHED = b"u/"
RUNS = b"h/"
PULLS = b"p/"
OPEN_PULLS = b"o/"
COMMENTS = b"i/"
BATCHES = b"w/"
BATCH_COUNTS = b"n/"
STREAMS = b"e/"
SNAPSHOTS = b"r/"
ACTION_RUNS = b"a/r/"
ACTION_RUNS_OF_BRANCH = b"a/b/"
ACTION_RUNS_OF_COMMIT = b"a/c/"

_NAMESPACE_BYTES_MAX = 900  # of a key; two namespaces may share a longer prefix
_GENERATION_MAX = 2**63 - 1


def space(repository: Repository) -> bytes:
    """The partition of one repository's records."""
    return f"r/{repository.id}/{repository.uid}".encode()


def branch_key(branch: BranchId) -> bytes:
    return BRANCHES + branch.encode()


def deleted_branch_key(branch: BranchId) -> bytes:
    return DELETED_BRANCHES + branch.encode()


def tag_key(tag: TagId) -> bytes:
    return TAGS + tag.encode()


def commit_key(commit: CommitId) -> bytes:
    return COMMITS + commit.encode()


def graph_key(generation: int, commit: str) -> bytes:
    """Keys sort by falling generation, then by id."""
    return GRAPH + b"%016x/" % (_GENERATION_MAX - generation) + commit.encode()


def generation_of(key: bytes) -> int:
    """The generation in a `graph_key`."""
    return _GENERATION_MAX - int(key[len(GRAPH) : len(GRAPH) + 16], 16)


def folds_prefix(branch: BranchId, commit: CommitId) -> bytes:
    return FOLDS + f"{branch}/{commit}/".encode()


def fold_key(branch: BranchId, commit: CommitId, newest: StagingToken) -> bytes:
    return folds_prefix(branch, commit) + newest.encode()


def upload_key(address: str) -> bytes:
    return UPLOADS + address.encode()


def multipart_upload_name(branch: BranchId, path: str, upload: str) -> str:
    """Names sort by branch and path, as the keys of a bucket do, then by upload.  No path has a
    NUL."""
    return f"{branch}/{path}\0{upload}"


def part_checksum_name(upload: str, number: int, etag: str) -> str:
    return f"{upload}/{number}/{etag}"


def setting_key(setting: str) -> bytes:
    return SETTINGS + setting.encode()


def job_key(job: JobId) -> bytes:
    return JOBS + job.encode()


def job_order_key(job: JobId) -> bytes:
    return JOB_ORDERS + job.encode()


def job_steps_prefix(job: JobId) -> bytes:
    return JOB_STEPS + f"{job}/".encode()


def job_step_key(job: JobId, number: int) -> bytes:
    return job_steps_prefix(job) + b"%06d" % number


def stream_key(branch: BranchId, digest: str) -> bytes:
    return STREAMS + f"{branch}/{digest}".encode()


def cleanup_key(token: StagingToken) -> bytes:
    return CLEANUPS + token.encode()


def metadata_key(name: str) -> bytes:
    return METADATA + name.encode()


def condemned_key(id: str) -> bytes:
    return CONDEMNED + id.encode()


def unreached_key(commit: CommitId) -> bytes:
    return UNREACHED + commit.encode()


def run_key(run: str) -> bytes:
    return RUNS + run.encode()


def action_run_key(run: str) -> bytes:
    return ACTION_RUNS + run.encode()


def branch_runs_prefix(branch: BranchId) -> bytes:
    return ACTION_RUNS_OF_BRANCH + f"{branch}/".encode()


def commit_runs_prefix(commit: CommitId) -> bytes:
    return ACTION_RUNS_OF_COMMIT + f"{commit}/".encode()


def snapshot_key(name: str) -> bytes:
    return SNAPSHOTS + name.encode()


def pull_key(pull: PullId) -> bytes:
    return PULLS + pull.encode()


def open_pull_key(branch: BranchId, pull: PullId) -> bytes:
    return OPEN_PULLS + f"{branch}/{pull}".encode()


def comments_prefix(pull: PullId) -> bytes:
    return COMMENTS + f"{pull}/".encode()


def comment_key(pull: PullId, number: int) -> bytes:
    """Keys of one pull request sort by number."""
    return comments_prefix(pull) + b"%06d" % number


def at_namespace_prefix(place: str) -> bytes:
    """Begins the keys of the notes on a namespace, in its normal spelling.  Those on a long one may
    begin the same as those on another."""
    return f"{place}/\0".encode()[:_NAMESPACE_BYTES_MAX]


def below_namespace_prefix(place: str) -> bytes:
    """Begins the keys of the notes on a namespace and on those below it."""
    return f"{place}/".encode()[:_NAMESPACE_BYTES_MAX]


def namespace_key(place: str, repository: Repository) -> bytes:
    return at_namespace_prefix(place) + f"/{repository.id}/{repository.uid}".encode()


def watch_prefix(repository: Repository) -> bytes:
    return f"{repository.id}/{repository.uid}/".encode()


def arrivals(repository: Repository, rule: str, key: bytes) -> bytes:
    """The partition of one object's arrival record.  A rule has as many partitions as a staging
    token can have shards, because each event writes one row to both in one step."""
    number = shard(key, limits.staging_shard_count_max)
    return f"e/{repository.uid}/{rule}/{number}".encode()


def of_events(repository: Repository, rule: str) -> list[bytes]:
    """Every partition of a rule's event records: arrivals and confirmations."""
    numbers = range(limits.staging_shard_count_max)
    arrived = [f"e/{repository.uid}/{rule}/{number}".encode() for number in numbers]
    return arrived + all_vouched(repository, rule)


def vouched(repository: Repository, rule: str, call: bytes) -> bytes:
    """The partition of the confirmation of one call."""
    number = shard(call, limits.staging_shard_count_max)
    return _vouched(repository, rule, number)


def all_vouched(repository: Repository, rule: str) -> list[bytes]:
    """Every partition of the confirmations of a rule."""
    numbers = range(limits.staging_shard_count_max)
    return [_vouched(repository, rule, number) for number in numbers]


def _vouched(repository: Repository, rule: str, number: int) -> bytes:
    return f"e/{repository.uid}/{rule}/vouched/{number}".encode()


def batch_key(rule: str) -> bytes:
    return BATCHES + rule.encode()


def batch_count_key(rule: str, counter: int) -> bytes:
    return BATCH_COUNTS + f"{rule}/{counter}".encode()
