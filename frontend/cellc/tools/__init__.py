"""What people look at: profiles, and why a network was compiled again."""
