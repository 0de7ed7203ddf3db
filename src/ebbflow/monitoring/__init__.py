"""What was measured: the store that keeps readings and ledger."""
