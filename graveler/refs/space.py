"""Where the records of repositories stand: partitions and keys, as docs/format.md draws them.

    repos             <repository>            the repository record, by name
    r/<name>/<uid>    everything else of one repository; a re-created one has another uid

The one place that spells these bytes.  Pure; for this folder.
"""

from graveler.ids import BranchId, CommitId, JobId, StagingToken, TagId
from graveler.records import Repository

REPOSITORIES = b"repos"

BRANCHES = b"b/"
TAGS = b"t/"
COMMITS = b"c/"
FOLDS = b"f/"
UPLOADS = b"l/"
SETTINGS = b"s/"
JOBS = b"j/"
CLEANUPS = b"x/"
METADATA = b"m/"
CONDEMNED = b"g/"
RUNS = b"h/"


def space(repository: Repository) -> bytes:
    """The partition of one repository's records."""
    return f"r/{repository.id}/{repository.uid}".encode()


def branch_key(branch: BranchId) -> bytes:
    return BRANCHES + branch.encode()


def tag_key(tag: TagId) -> bytes:
    return TAGS + tag.encode()


def commit_key(commit: CommitId) -> bytes:
    return COMMITS + commit.encode()


def folds_prefix(branch: BranchId, commit: CommitId) -> bytes:
    return FOLDS + f"{branch}/{commit}/".encode()


def fold_key(branch: BranchId, commit: CommitId, newest: StagingToken) -> bytes:
    return folds_prefix(branch, commit) + newest.encode()


def upload_key(address: str) -> bytes:
    return UPLOADS + address.encode()


def setting_key(setting: str) -> bytes:
    return SETTINGS + setting.encode()


def job_key(job: JobId) -> bytes:
    return JOBS + job.encode()


def cleanup_key(token: StagingToken) -> bytes:
    return CLEANUPS + token.encode()


def metadata_key(name: str) -> bytes:
    return METADATA + name.encode()


def condemned_key(id: str) -> bytes:
    return CONDEMNED + id.encode()


def run_key(run: str) -> bytes:
    return RUNS + run.encode()
