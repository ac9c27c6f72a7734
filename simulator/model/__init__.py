"""The model of a repository: dictionaries that give the right answer of every verb."""
