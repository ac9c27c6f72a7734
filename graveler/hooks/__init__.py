"""Hooks: actions of a repository that run before and after its changes.

`gate` is the port of the engine; start there.  `runs` runs the hooks of one event, `calls` one
hook, and `egress` sends its requests.
"""
