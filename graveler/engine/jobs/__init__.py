"""Jobs: work that outlives its request.

record       creates, claims and ends job records; start here
checkpoints  progress that the next run of a job continues from
"""
