"""The key-value port: its contract (store), a reference in memory, drivers, and a retrying wrapper."""
