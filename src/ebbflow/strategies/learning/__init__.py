"""What strategies can learn by trying."""
