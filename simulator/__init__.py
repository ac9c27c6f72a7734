"""The simulator: production code under seeded schedules, faults and crashes.  Not in the wheel.

schedule                         who runs next: clients, interleaved and disturbed by choices that
                                 can be replayed; start here
stage, ports                     the start state; store, clock, ids and cache of a client
blocks, ranges, uploads          object storage of simulated clients
lanes                            which clients share a process
verbs/                           the calls that simulated clients make
histories, invariants, legality  one run; what must hold in it; which values a reader may see
registers, arrivals, gates       what must hold of names, of events, of protection and pull requests
families, exhaustive             which programs run: drawn from a seed, or all of them
access, logins, first_logins     users, groups, policies and principals that change while they are
                                 used
gc/                              simulated garbage collection
programs/, model/                random programs against a dictionary model
service/                         a served store as a process: requests, fuzzing
soak/                            everything at once, for hours
rates, machine_code              speed of the simulator; its compiled form
damage, sample_records           malformed bytes for every reader
"""
