"""What is deployed: the template, the layer, and the whole stack in a local engine."""
