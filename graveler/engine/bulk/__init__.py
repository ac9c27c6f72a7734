"""Bulk jobs: a cluster writes ranges, and one call turns them into a commit.

job       begin, heartbeat, cancel and list bulk jobs; start here
land      the end of a bulk job: one commit, however often it is requested
content   the metarange that results from a bulk job on the current head
check     checks metaranges that a client wrote
handover  a commit with too many rows waits for a cluster
rows      staged rows of one shard, page by page
"""
