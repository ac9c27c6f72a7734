"""Jobs of the service: requests become jobs, a queue carries their messages, workers run them.

Read `handover.py` first, then `worker.py` and `kinds.py`, the table of all kinds.
"""
