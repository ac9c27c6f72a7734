"""The key-value port: one contract, a reference implementation in memory, drivers, wrappers."""
