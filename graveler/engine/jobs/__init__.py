"""Jobs: work that outlives its request.

record       creates, claims and ends job records; start here
overview     jobs of all kinds in one shape
checkpoints  progress that the next attempt of a job continues from
"""
