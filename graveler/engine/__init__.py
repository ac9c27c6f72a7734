"""The operations of Graveler, called verbs: functions over two frozen records of `ports.py`.

A verb of one repository receives `repo: OpenRepository`, one of several repositories `Ports`.
Read `ports.py`, then `commits/commit.py`: the other modules follow the same pattern.
"""
