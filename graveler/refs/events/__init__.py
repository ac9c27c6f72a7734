"""Records of event ingestion: rules, arrivals, batches."""
