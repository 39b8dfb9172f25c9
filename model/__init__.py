"""What a problem, an architecture and a mapping are, and what a mapping costs."""
