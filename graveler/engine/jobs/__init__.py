"""Jobs: records, checkpoints and views of work that outlives its request."""
