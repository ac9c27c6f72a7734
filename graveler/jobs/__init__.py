"""Jobs: the scheduler records them, a queue carries their messages, workers run them.

Read `schedule.py` first, then `worker.py` and `kinds.py`, the table of all kinds.  `handover.py` is
for requests that become a job when their time is over.
"""
