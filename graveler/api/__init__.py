"""The HTTP service: a table of routes, and an endpoint for each row.

Read in this order: `table.py` (the fields of a row), `routes.py` (every row), `dispatch.py` (from a
request to its endpoint), `service.py` (the input of an endpoint).  The endpoints are grouped by
subject: `repositories.py`, `branches.py`, `commits.py`, `object_reads.py`, `object_writes.py` and
others; `endpoints.py` collects them.  `start.py` and `app.py` build the application; `server.py`
serves it from one process.
"""
