"""Bulk work on Spark: what is too much for one process runs on the users' own cluster.

Works on PySpark 3.5 and 4, with DataFrames and `mapInArrow` alone: no RDD, no JVM gateway, no jar.
The driver asks the API for references; the executors read and write ranges in the object store with
the role of the job, and never see the API's secret.  The one owner of pyspark, pyarrow and numpy.
"""
