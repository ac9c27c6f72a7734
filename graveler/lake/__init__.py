"""The Python library: lakes, repositories, branches and refs as objects.

    connect, open ──► Lake ──► Repository ──► Branch, Tag, Commit ──► objects, history

A verb is one or a few calls of `session`, over `connections`; bytes move by `objects` and
`transfers`.  The commands and graveler.aio call these verbs.  Names are those of git and pathlib.
"""
