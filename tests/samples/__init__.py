"""The sample networks: two modes, reference, MindSpore, and the scripts themselves."""
