"""Contract suites, models and faults for tests; the product never imports them."""
