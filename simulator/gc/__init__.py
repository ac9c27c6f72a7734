"""Simulated runs of garbage collection beside all verbs that may begin to use a file.

run, stage      one run; its start state
programs        random programs, and one run of one of them
verbs, objects  what simulated clients do with commits and refs, and with objects
steps           the simulated collector, also as a job that is cut off and continued
"""
