"""Benchmarks, run by hand; they are not part of the tests.  They print their lines; what a user
decides by stands in `docs/measured/`.

    committed                        the committed layer: speed, memory, size
    http, daily, crowd, contention   the service under load; daily verbs; many clients on one branch
    gateway, s3                      the S3 gateway
    commands, transfers              commands: starts, a linked folder; transfers
    library, page                    the Python library; the page in a slow browser
    spark, spark_runs, spark_tables  Spark: imports, reads, diffs; tables beside its own Parquet
    cold, cold_service               the cold start of the function
    pairs                            two versions of the service, by turns
    cost*, prices, metering          AWS: requests, counted and priced
    served, load, single, stopwatch, peer    shared; lakeFS's figures
"""
