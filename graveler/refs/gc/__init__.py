"""Records of garbage collection: runs, marks of condemned commits, retention rules, sizes."""
