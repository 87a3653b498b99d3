"""Sharding: the graph of one process becomes what one rank of a mesh does (`rewrite.shard`)."""
