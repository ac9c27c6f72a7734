"""The simulator: production code under seeded schedules, faults and crashes.  Not in the wheel.

schedule, stage, ports, blocks, ranges, uploads, lanes   one simulated world: who runs next, over
                                         which stores, and which clients share a process
verbs/                                   the calls that simulated clients make
histories, legality, registers, arrivals, invariants   what must hold in every run
families, exhaustive                     which programs run: drawn from a seed, or all of them
gc/                                      simulated garbage collection
access                                   users, groups and policies that change while they are used
programs/, model/                        random programs against a dictionary model
service/                                 a served store as a process: requests, fuzzing
soak/                                    everything at once, for hours
rates, machine_code                      speed of the simulator; its compiled form
damage, sample_records                   malformed bytes for every reader
"""
