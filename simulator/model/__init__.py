"""The model of a repository: dictionaries that say what every verb must answer."""
