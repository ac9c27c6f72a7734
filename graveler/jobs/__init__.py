"""Jobs of the service: requests become jobs, a queue carries their messages, workers run them."""
