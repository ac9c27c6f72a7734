"""Schedules, faults and kills: the production verbs in a simulated world."""
