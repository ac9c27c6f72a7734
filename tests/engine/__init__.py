"""The verbs, through their public doors."""
