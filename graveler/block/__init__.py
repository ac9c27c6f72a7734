"""The object storage port: its contract, a memory reference, drivers and wrappers.

    adapter                      the contract (clauses B1 to B12); start here
    address, bounds, bodies      physical addresses; checks of arguments; bodies that are sent again
    listing, deletion, creation  many objects at once, for callers and drivers
    partitions                   the folder for the bytes of new objects
    registry                     opens storage by a URI

Drivers and wrappers:
    memory   the reference driver; every other driver must behave like it
    retry    a wrapper that repeats requests and recognises lost answers
    counter  a wrapper that counts requests

The driver for a folder:
    local                       objects in one folder
    layout, walk                keys as file paths; a tree of folders as one sorted sequence
    files, file_reads           whole files, and their reads
    file_checksums              the checksums of large files
    folders, open_files         folders; files that stay open
    small_files, journal, disk  small files; the journal that makes them durable; syncs
    local_uploads, imports      uploads in parts; files of this machine in place
    signature                   URLs that the service signs and serves

The driver for S3:
    s3                                 objects in S3 buckets
    s3_calls, s3_uploads               every request to S3; writes
    s3_deletes, s3_versions            deletions; versions
    s3_places, s3_regions, s3_notices  which addresses, where, with which notifications
    s3_urls, sigv4, ranged_get         signed URLs, and reads by them without an S3 client
"""
