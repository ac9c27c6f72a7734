"""Records of event ingestion: event rules, arrivals, batches."""
