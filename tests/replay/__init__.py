"""The history of a real repository, replayed."""
