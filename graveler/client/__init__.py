"""A Python client for what the commands do, and for what Graveler adds to lakeFS.

Use it beside the unmodified `lakefs` client.

    session           connects to a server and sends requests; start here
    refs              repositories, branches and tags
    commits           commits, differences and merges
    objects           objects of branches
    parts             uploads of large objects in parts
    imports           objects of a storage, without a copy
    protection        branch protection rules
    pulls             pull requests
    jobs              what the server does in the background
    dumps             dumps of refs, and restores
    actions           runs of hooks, and their logs
    audit             who changed what, or was denied
    identity          who the caller is
    users             users and their access keys
    groups            groups of users
    usage             how many requests were answered
    policies          policies, and what the caller may do
    bulk              bulk jobs, staged rows and roots of a collection, for a cluster
    collections       garbage collections, by the server or by a cluster
    retention         how many days the content of commits is kept
    event_rules       rules that stage objects as they arrive in a bucket
    break_parameters  where the ranges of a repository end

For this package:
    connections, origins         a pool of connections; where requests lead, and by which proxy
    exchange                     one request on a connection, and its answer
    request_lines, answer_heads  the lines of requests and answers, in place of `http.client`
    bodies                       the body of an upload
    digest, crc32c               its MD5, and what else a second thread does; its CRC32C
"""

from graveler.client.session import Session, connect, connect_as_lakectl

__all__ = ["Session", "connect", "connect_as_lakectl"]
