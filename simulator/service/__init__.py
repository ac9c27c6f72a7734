"""A served store as its own process, and clients that try to break it."""
