"""Work that outlives a request."""
