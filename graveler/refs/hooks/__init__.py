"""Records of hooks: the runs of actions (runs.py)."""
