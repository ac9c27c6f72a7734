"""The object storage port: one contract by verb, a memory reference, drivers, wrappers."""
