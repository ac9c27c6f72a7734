"""Simulated runs of garbage collection beside everything that may begin to use a file."""
