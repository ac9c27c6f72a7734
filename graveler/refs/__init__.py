"""Records of repositories, of the names of commits, and of the work on them.

    keys     partitions and keys of all records (docs/reference/format.md draws them)
    rows     one page of records from a key range
    cache    repositories and branches for seconds, commits without a time limit
    names/   repositories, branches, tags, pull requests; ref expressions and how they resolve
    graph/   commits, ancestors, merge bases, the log
    tokens/  clean-up records of staging tokens, upload addresses, uploads in parts
    jobs/    job records, and the record that allows one collection at a time
    gc/      collection runs, condemned commits, retention rules
    events/  event rules, arrivals, batches
    hooks/   runs of actions

Read `keys.py`, then `names/branches.py`.
"""
