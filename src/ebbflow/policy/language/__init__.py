"""The policy language: ``words`` and their grammar in ``builder``; ``english`` prints a policy as sentences."""
