"""Pictures and pages from runs, and the live view of one that is still going."""
