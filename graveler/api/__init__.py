"""The HTTP service: one table of routes, and what stands behind it."""
