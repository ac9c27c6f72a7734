"""The operations of Graveler, called verbs: functions over two frozen records.

A verb of one repository receives `repo: OpenRepository`: the ports and the record of that
repository.  A verb of several repositories receives `Ports`.
One package holds the verbs of one subject:

    ports          what every verb receives: stores, clock, ids, settings, and the repository; the
                   deadline of a request
    hooks          the port through which verbs run hooks before and after a change
    namespaces     which repositories an address or another namespace overlaps
    protection     which branches only merges, reverts and cherry-picks may change
    staged_rows    counts uncommitted rows
    commits/       commit, merge, revert, reset, log, diff: verbs that move or compare heads
    objects/       upload, read, list, copy and delete objects on a branch
    names/         branches and tags
    pulls/         pull requests
    repositories/  create, find, delete, verify and purge repositories
    imports/       add objects of other buckets and folders to a branch, without a copy
    bulk/          turn ranges that a cluster wrote into one commit
    events/        turn objects that arrive in a bucket into staged rows and commits
    gc/            retention and garbage collection
    jobs/          records and checkpoints of work that outlives its request
    dumps/         write branches, tags and commits as tables, and restore them
    upkeep/        the janitor, and periodic work over all repositories

Read `ports.py`, then `commits/commit.py`: the other packages follow the same pattern.
"""
