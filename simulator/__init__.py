"""The simulator: production code under seeded schedules, faults and crashes.  Not in the wheel.

schedule.py decides which client steps next, histories.py is one run, invariants.py what must hold
in it; families.py and exhaustive.py say which programs run.
"""
