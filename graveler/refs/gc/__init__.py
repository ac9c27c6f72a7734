"""Records of garbage collection: runs, condemned commits, retention rules, sizes."""
