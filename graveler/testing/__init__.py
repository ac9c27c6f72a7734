"""Contract suites, oracles and faults for tests; the product never imports them."""
