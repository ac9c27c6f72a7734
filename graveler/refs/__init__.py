"""Records of repositories and everything that names or follows commits.

    keys     partitions and keys of all records (docs/format.md draws them)
    rows     one page of records from a stretch of keys
    cache    repositories and branches for seconds, commits without a limit of time
    names/   repositories, branches, tags; ref expressions and how they resolve
    graph/   commits, ancestors, merge bases, the log
    tokens/  clean-up records of staging tokens, upload addresses
    jobs/    job records, the turn to collect a repository
    gc/      runs of collection, condemned commits, retention rules
    events/  ingestion rules, arrivals, batches

Read `keys.py`, then `names/branches.py`.
"""
