"""Benchmarks, run by hand; they are not part of the tests.

Groups of lines in build/measured/benchmarks.md:
    committed, huge                  the committed layer: speed, memory, size
    linear, growth                   what must not grow, and growth with the number of objects
    http, crowd, contention, access  the service under load; many clients on one branch; rights
    gateway, s3                      the S3 gateway
    transfers, folders, starts       commands: transfers, linked folders, starts
    spark, spark_runs, spark_ranges  Spark: imports, reads, diffs
    spark_tables                     tables on Spark beside its own Parquet
    spark_steps                      where the time of an import on Spark goes
    cold, cold_service               the cold start of the function
    pairs                            two versions of the service, by turns
    floors, peer                     what the machine allows; lakeFS's figures

Cost and scale on AWS, computed:
    cost, prices, metering         build/measured/cost.md: requests, counted and priced
    cost_operations, cost_gateway  the verbs and the gateway that are priced
    cost_text                      its text
    scale, scale_runs, scale_text  build/measured/scale.md: sizes, simulated clients, its text
    partitions, timeline           limits of DynamoDB; virtual time

Shared:
    served, load, commands             a served store; a load generator; commands as users run them
    stopwatch                            how long a call takes
    single, report, sections, written  the commands of a group; documents and their sections
"""
