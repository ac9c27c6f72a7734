"""The soak: all tracks at once on all cores: `python -m simulator.soak.run --minutes 40`.

run, tracks, leash                      the soak; its tracks as processes; they end with it
schedules, programs                     tracks without a service: schedules and malformed bytes;
                                        random programs
service_tracks, kill_loop, steady_load  tracks that serve a store: requests, kills, loads
records, report, svg_graphs             reports of tracks; what the soak prints; graphs
growth, cardinality                     whether a quantity grows; how many numbers are distinct
fixed_work, heap_room, stored_bytes     the speed of the machine; the free room in a heap; the
                                        size of a store
"""
