"""A served store as a process of its own, and clients that try to break it."""
