"""The S3 gateway: every S3 client reads and writes branches.

    s3://lake/main/in/x.parquet      bucket = repository, first segment of a key = ref

Read in this order: `operation.py`, `reads.py`, `operations.py`, `route.py`, `address.py`.

    operation, operations    the declaration of an operation; the collection of all
    route, address, request  from a request to its endpoint; what it names; as it was sent
    app                      a process that serves S3 clients alone

Operations:
    buckets, listings, branch_order    buckets, which are repositories; listings, and their order
    reads                              one object
    writes, targets                    one object; the ref of a write
    deletes                            one key, or up to 1,000
    uploads, upload_listings           multipart uploads, and their listings

Who sent a request, and its body:
    identity, authentication           the interface of the route; the check of a signature
    claims, signatures, signatures_v2  what a request claims; versions 4 and 2 of the signature
    payload, chunks, checksums, crc64  the body: decoded and verified while it streams
    object_checksums, joined_crc       checksums of objects that are uploaded in parts
    content, bodies, xml_bodies        the body between event loop and thread; XML bodies

Answers:
    xml, times, metadata, parameters  XML, times, headers and query values of S3
    errors                            the closed table of error codes
    long_answers, endings             answers that begin before their work ends

The gateway is a delivery like `api/`, over the same verbs of the engine.  `api/` does not know it:
the commands pass its route to the application.
"""
