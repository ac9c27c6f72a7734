"""The key-value port: its contract (store), a reference in memory, drivers, a retrying wrapper."""
