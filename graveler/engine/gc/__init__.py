"""Retention and garbage collection, by the service (collect.py) or on a cluster (cluster.py)."""
