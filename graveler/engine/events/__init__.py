"""Events: objects that arrive in a bucket become staged rows, then commits.

rules    creates, shows and deletes event rules
take_in  stages what notifications report; start here
batches  one commit for each batch of arrived objects
expire   removes records of notifications that can no longer arrive
"""
