"""Reports for people: profiles, and the causes of recompilations."""
