"""Random programs of verbs, run on the engine and on the model in lock step.

programs                   one program; start here
world                      ports, repository, model, and the comparison of the two
verbs, arguments           the verbs, and how often each is drawn; their arguments
commits, imports, staging  verbs by subject
checks                     listings, differences, logs, and the whole state at the end
"""
