"""The verbs: functions over the frozen record `Ports`, grouped by subject.

    ports          what every verb receives: stores, clock, ids, settings; the deadline of a request
    commits/       commit, merge, revert, reset, log, diff: what moves or compares heads
    objects/       upload, read, list, copy and delete of objects on a branch
    names/         branches and tags
    repositories/  create, find, delete, verify and purge repositories
    imports/       objects that lie elsewhere become paths of a branch
    bulk/          ranges that a cluster wrote become one commit
    events/        objects that arrive in a bucket become staged rows and commits
    gc/            retention and garbage collection
    jobs/          records and checkpoints of work that outlives its request
    dumps/         branches, tags and commits as tables
    upkeep/        the janitor, and rounds over all repositories

Read `ports.py`, then `commits/commit.py`: the other rooms follow the same pattern.
"""
