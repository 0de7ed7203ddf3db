"""The loop that ties strategies, guards and targets together, and the ledger it writes."""
