"""The simulator: production code under seeded schedules, faults, crashes.  Not in the wheel.

schedule, stage, ports, blocks, ranges   one simulated world: who runs next, over which stores
verbs/                                   what simulated clients call
histories, legality, registers, arrivals, invariants   what must hold of every run
families, exhaustive                     which programs run, drawn or all of them
gc/                                      simulated garbage collection
programs/, model/                        random programs against a dictionary model
service/                                 a served store as a process: requests, fuzzing
soak/                                    everything at once, for hours
rates, machine_code                      speed of the simulator; its compiled form
damage, sample_records                   malformed bytes for everything that reads
"""
