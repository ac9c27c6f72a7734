"""The S3 gateway: every S3 client reads and writes branches.

s3://lake/main/in/x.parquet      bucket = repository, first segment of a key = ref
"""
