"""The object storage port: its contract, a memory reference, drivers and wrappers.

adapter      the contract (clauses B1 to B12); start here
address      physical addresses
memory       the reference driver; every other driver must behave like it
local        the driver for a folder; with layout, files, folders, open_files, walk, imports,
             local_uploads, small_files, journal, disk
s3           the driver for S3 buckets; with ranged_get, sigv4 and the modules s3_*
retry        a wrapper that repeats requests and recognises lost answers
counter      a wrapper that counts requests
registry     opens storage by a URI
"""
