"""What is bounded together: a keep mask and classes of spatial choices, by energy, loads or sums of both."""
