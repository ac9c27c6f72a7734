"""HTTP as the API, the S3 gateway and signed URLs share it: bodies on their way in and out, ranges,
conditions, errors, threads, and the server.

An API or a gateway names its parameters and shapes its answers; all else is here.
"""
