"""Jobs: work that outlives its request.

record       creates, claims and ends job records; start here
checkpoints  progress that the next attempt of a job continues from
"""
