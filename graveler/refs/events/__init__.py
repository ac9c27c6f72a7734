"""Records of event ingestion.

rules     event rules
arrivals  what notifications have reported
batches   arrived objects that become one commit
"""
