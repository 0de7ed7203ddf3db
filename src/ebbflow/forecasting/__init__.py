"""What load comes next: a straight line, and a small net that must beat it."""
