"""Clusters that run as one kernel."""
