"""The audit trail: who changed what, and who was denied what.

    lines  one line of the trail, and questions about lines; start here
    trail  the port: write lines, read them again
    files  the trail of an embedded store, in files beside it
    logs   the trail of a deployment on AWS, in the log group of its function

http/audit.py makes the lines, and nothing else does.
"""
