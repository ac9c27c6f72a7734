"""The key-value port: one contract, a memory reference, drivers, wrappers."""
