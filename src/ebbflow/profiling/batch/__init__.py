"""The micro-batch capacity model: costs per stage, outlook, sizes and drift."""
