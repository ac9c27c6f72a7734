"""Records of garbage collection."""
