"""HTTP as the API, the S3 gateway and signed URLs share it.

Rules of RFC 9110:
    conditions  If-Match and its like: of reads, and of writes
    ranges      which bytes a request asks for

Rules of browsers:
    cors        which pages of other origins may use signed URLs
"""
