"""Graveler: git for data lakes.

Importing the package loads only this version.  Each dependency is loaded by the module that owns
it.  Every module may import this.  `graveler.read_entries` is loaded when it is first named.

Delivery (layer 4):
    api/                   the HTTP service
    gateway/, http/        the S3 gateway; conditions and ranges of requests
    cli/                   the commands
    client/, arrow/        the Python client; committed entries as Arrow columns
    spark/                 jobs that are too large for one process
    local/                 a folder in step with a branch
    jobs/, events/         work that outlives its request; objects that arrive in a bucket
    hooks/, audit/, auth/  actions of a repository; the audit trail; who may do what
    assembly/              opens a store: chooses the drivers
    settings, variables    the configuration, from environment variables

Verbs (layer 3), state (2), ports (1):
    engine/                      the operations, called verbs
    committed/, staging/, refs/  immutable ranges; uncommitted rows; records
    kv/, block/                  the key-value port; the object storage port
    aws                          the AWS session of a process, for drivers and assembly

Language (layer 0), which every module may import:
    records, ids, errors, limits  the nouns, their names, the kinds of failure, every limit
    clock, identity, globs        time and ids; hashes that decide what is the same; globs
    wire, wire_pb2, framing       records and range values as bytes; generated code
    wire_dumps, break_json        lakeFS's format of dumps; break parameters as JSON
    streams, fanout, requests     cursors; the interface of fan-out; counters and retry policies
    lanes, sync_waiters           callers take turns on one thing; threads wait for a shared sync
    measured_body, crc32c         a body that is counted and hashed; a fast checksum
    private_files                 files for their owner alone
    web                           the port for requests to hosts outside the service

Beside the layers; the product never imports it:
    testing/  contract suites, oracles and faults
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graveler.arrow import read_entries

__all__ = ["__version__", "read_entries"]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Import `read_entries` at first use."""
    if name != "read_entries":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graveler.arrow import read_entries

    return read_entries
