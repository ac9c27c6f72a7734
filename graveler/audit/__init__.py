"""The audit trail: who changed what, and who was denied what.  api/witness.py makes the lines."""
