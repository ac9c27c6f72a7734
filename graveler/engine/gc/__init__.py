"""Retention and garbage collection.

    collect          one run: list, mark, condemn, delete one run later; start here
    retention        which commits a repository keeps
    eligible         which repositories may be collected
    listing          the files of a namespace, listed once for all attempts of a job
    candidates       files that may be deleted; a file leaves the set when a use of it is found
    mark             finds uses: refs, staged rows, commits, running operations
    content          files that the content of commits uses
    readings         ranges of metaranges and names in ranges, kept between attempts of a job
    leftovers        files that jobs on Spark have left and no reader needs
    condemned_files  the condemned files of a run, as files in the namespace
    lost_content     commits whose content was given up, as files in the namespace, for a restore

For a collection that a cluster or lakeFS's Spark client makes:
    cluster            condemns and sweeps
    cluster_turns      one collector at a time
    roots, root_pages  metaranges whose content must stay, and other uses; in pages
    judgements         snapshots of the judgement about all commits
    prepare, parquet   what is in use, as files for lakeFS's client
"""
