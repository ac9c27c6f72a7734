"""The S3 gateway: every S3 client reads and writes branches.

    s3://lake/main/in/x.parquet      bucket = repository, first segment of a key = ref

Read in this order: `operation.py` (the declaration of an operation), `reads.py` (a module with
operations), `operations.py` (the collection of all), `route.py` (from a request to its endpoint),
`address.py` (Host and path to repository, ref and path).  `identity.py` says who sent a request and
how its body is framed: `authentication.py` knows it by `claims.py`, `signatures.py` and
`signatures_v2.py`, and `payload.py` verifies the body with `chunks.py` and `checksums.py`.
`errors.py` has the closed table of error codes, `xml.py` writes answers, `xml_bodies.py` reads
bodies.

The gateway is a delivery like `api/`, over the same verbs of the engine.  `api/` does not know it:
the commands pass its route to the application.
"""
