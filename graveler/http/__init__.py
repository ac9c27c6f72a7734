"""HTTP as the API, the S3 gateway and signed URLs share it.

conditions    If-Match and its like: of reads, and of writes (RFC 9110, section 13)
ranges        which bytes a request asks for (RFC 9110, section 14)
"""
