"""What simulated clients call: the production verbs with drawn arguments.

calls                        every verb, by its name; start here
more, heads, names, uploads  replays, imports, bulk deletions; heads; names; uploads in parts
arrivals, bulk, gates        events of a bucket; bulk jobs; protection and pull requests
"""
