"""Jobs of the service: requests become jobs, a queue carries their messages, workers run them.

From a request to a worker:
    handover           begins a job, hands it to a worker, waits for it; start here
    join               what a request is answered that joins the job of an equal one
    requests, orders   requests that may become jobs; what each kind of job was asked for
    queue, sqs         the queue in memory, and on Amazon SQS
    worker, heartbeat  takes a message, claims its job, runs it; keeps its lease

What one attempt does:
    kinds                the table of all kinds
    commit, copy, reset  a commit, a copy, a reset of a prefix
    stepwise, collect    collections and dumps from their checkpoints; a collection
    hook_progress        how far the attempts at a post-event have come

Periodic work:
    revive  enqueues jobs whose worker has gone silent
    rota    collections in turns, one at a time for a repository
    purge   purges of deleted repositories
"""
