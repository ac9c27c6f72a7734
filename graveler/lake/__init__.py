"""The Python library: lakes, repositories, branches and refs as objects.

    connect, open ──► Lake ──► Repository ──► Branch, Tag, Commit ──► objects, history

Every verb is one or a few calls of graveler/client.  Names are those of git and of pathlib.
"""
