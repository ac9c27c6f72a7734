"""Random programs of verbs, run on the engine and on the model in lock step."""
