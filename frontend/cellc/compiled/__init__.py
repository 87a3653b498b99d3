"""Graph mode: compiled once per signature, and found again by each call."""
