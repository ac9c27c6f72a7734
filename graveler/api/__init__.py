"""The HTTP service: operations, each declared once, beside its endpoint.

Read in this order: `operation.py` (the declaration of an operation), `branches.py` (a module with
operations), `operations.py` (the collection of all), `dispatch.py` (from a request to its
endpoint), `service.py` (the input of an endpoint).

Operations, by subject:
    repositories, break_parameters        repositories, and where their ranges end
    protection                            branch protection rules
    branches, commits                     branches and tags; commits, differences, logs
    new_commits, tasks                    commits and merges, also asynchronous ones
    commit_graph, summaries, pulls        the graph; counts for each child of a prefix; pull
                                          requests
    object_entries                        what a ref has at a path; listings
    object_reads, object_writes           bytes of objects, through the service
    presigned_urls                        bytes of one object for who has a signed URL
    upload_addresses, multipart           uploads that bypass it, also in parts
    symlinks                              for each folder, addresses for Hive and the like
    imports, bulk, jobs, dumps            work in the background, and of clusters
    collections, retention_rules          garbage collection, and its rules
    preparation                           what lakeFS's Spark client asks before it collects
    events, actions                       event rules; runs of hooks
    users, groups, policies, external     who may do what; `directory`: what these share
    session, usage, audit                 the service itself, its usage, the audit trail
    observation, pages                    metrics and readiness; paths outside the API

From a request to an endpoint:
    operation, operations, plans     the declaration; the collection; its compiled form
    routing, dispatch, requests      the route of all operations; one request; its path and body
    bodies, parameters, queries      parse and check the input
    forms, exchanges, cookies        form data; sessions in answers; the session cookie
    permits, templates, open_calls   permissions of endpoints; checks of calls without credentials
    directory                        shapes, pages and rules of users, groups, policies and keys
    deadlines, pools, feed, batches  time limits, threads, streamed bodies, small requests together
    service                          what every endpoint is given

Answers:
    answers, responses, lines, shapes      bodies of answers, their headers, kept lines, shared
                                           types
    field_types, file_bodies, samples      types of fields; files sent as they are; the sample data
    errors, client_texts, violations       errors as statuses, as texts, as places in a body
    openapi, json_schemas, reference_page  the description of all operations
    metrics, witness                       counters of the process; lines of the audit trail

The application and its server:
    start, app, identities, local_jobs  builds the application of a deployment
    lifespan, front, s3_clients         start and stop; its addresses; S3 clients where no gateway
                                        runs
    server, connections, heads, cycles  serves it from one process
"""
