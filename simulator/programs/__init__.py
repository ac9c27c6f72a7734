"""Random programs of verbs, run on the engine and on a dictionary model in lock step."""
