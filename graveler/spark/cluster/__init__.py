"""How a job works on a cluster: places, progress, results.

places, workers       how a process of the cluster opens the files of a repository
pieces, parallel      tables in pieces, and how many tasks to start
results, checkpoints  what tasks return, and checkpoints of finished buckets
heartbeat             keeps a bulk job alive
pins                  resolves a ref to one commit
plans, register       Spark's planning workers, and the registration of the data source
credentials, server   the credentials of a job; a server for an embedded store
"""
