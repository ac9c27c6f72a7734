"""Objects that arrive in a bucket become staged rows (take_in.py), then commits (batches.py)."""
