"""What a compiled network needs to run; imports numpy and the standard library only."""
