"""The HTTP service: operations, each declared once, beside its endpoint.

Read in this order: `operation.py` (the declaration of an operation), `branches.py` (a module with
operations), `operations.py` (the collection of all), `dispatch.py` (from a request to its
endpoint), `service.py` (the input of an endpoint).  `bodies.py` and `parameters.py` parse and check
the input; `shapes.py` has the types of answers that several modules share; `openapi.py` describes
everything.
The modules with operations are grouped by subject: `repositories.py`, `branches.py`, `commits.py`,
`object_reads.py`, `object_writes.py` and others.  `start.py` and `app.py` build the application;
`server.py` serves it from one process.
"""
