"""The object storage port: its contract (adapter), a reference in memory, drivers for a folder and
for S3, and a retrying wrapper."""
