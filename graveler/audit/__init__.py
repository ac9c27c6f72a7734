"""The audit trail: who changed what, and who was denied what.  http/audit.py makes the lines."""
