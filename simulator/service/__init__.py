"""A served store as its own process, and clients that try to break it.

process                    the service: started, watched from outside, killed
http_client                one kept connection, JSON in and out
described, requests, fuzz  operations as described; drawn requests; their answers, judged
schema_fuzz                the same by schemathesis
"""
