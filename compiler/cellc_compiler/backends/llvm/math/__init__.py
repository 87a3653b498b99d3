"""Elementary functions as straight-line vector code."""
