"""Random programs of verbs, run against the engine and the model in lock step."""
