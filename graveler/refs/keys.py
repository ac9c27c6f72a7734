"""Partitions and keys of all repository records, as docs/reference/format.md draws them.

    partition                    key                          record
    repos                        <repository>                 the repository, by name
    watch                        <repository>/<uid>/<rule>    an event rule
    creating                     <repository>/<uid>           a note: a repository being created
    deleted                      <repository>/<uid>           a deleted repository that still has
                                                              rows, files or its namespace
    unpurged                     <uid>                        when a purge failed last
    e/<uid>/<rule>/<n>           <object key>                 an arrival: the newest event of one
                                                              object that the rule took in
    e/<uid>/<rule>/vouched/<n>   <call>                       a confirmation: all rows of the call
                                                              count (arrivals.py)
    r/<name>/<uid>               <prefix>/<name>              all other records of one repository;
                                                              a re-created repository has a new uid
    s/<token>/<shard>            <path>                       a staged row (staging/area.py)

Prefixes of the keys in `r/<name>/<uid>` (there `s/` begins a key, above it begins a partition):

    b/ t/    branches, tags                     m/    pairs of the repository's metadata
    c/ f/    commits, fold records              s/    settings, such as the retention rule
    v/       the table of commits, by generation
    x/       clean-up records of tokens         g/    marks: condemned commits and metaranges
    l/ y/ d/ upload addresses, uploads in parts, the checksums of their parts
                                                u/    commits that no ref reaches, and since when
    j/ q/    jobs, their recorded requests      h/    runs of garbage collection
    p/ o/    pull requests, and by branch those that may be open
    i/       comments on pull requests              z/    marks of streams, by branch
    k/       checkpoints of jobs                w/ n/ batches of event rules, their counters
    a/r/     runs of actions, newest first      a/b/ a/c/ their ids by branch, by commit
    z/       published snapshots

Only this module spells these bytes, except those of staged rows.
"""

from graveler.core import limits
from graveler.core.identity import shard
from graveler.core.ids import BranchId, CommitId, JobId, PullId, StagingToken, TagId
from graveler.core.records import Repository

REPOSITORIES = b"repos"
WATCH = b"watch"
CREATING = b"creating"
DELETED = b"deleted"
UNPURGED = b"unpurged"

BRANCHES = b"b/"
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
SNAPSHOTS = b"z/"
