"""What simulated clients call: the production verbs with drawn arguments."""
