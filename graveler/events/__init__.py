"""Event intake: objects that arrive in a bucket become staged changes and commits, by event rules.

intake        what a message of a queue leads to; start here
notification  the events in one message
"""
