"""Retention and garbage collection.

collect         one run: list, mark, condemn, delete one run later; start here
retention       which commits a repository keeps
eligible        which repositories may be collected
listing         the files of a namespace, listed once for all attempts of a job
candidates      files that may be deleted; a file leaves the set when a use of it is found
mark            finds uses: refs, staged rows, commits, running operations
content         files that the content of commits uses
readings        ranges of metaranges and names in ranges, kept between attempts of a job
lists           the condemned files of a run, as files in the namespace
roots           metaranges whose content must stay, for a collection on a cluster
root_pages      those roots, and other uses, in pages
judgements      snapshots of the judgement about all commits
cluster         condemns and sweeps for a collection on a cluster
cluster_turns   one collector at a time
"""
