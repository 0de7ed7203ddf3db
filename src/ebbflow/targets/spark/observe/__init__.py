"""Observes a Spark application: from the progress of its queries to readings and batches.

Read in this order:

============= =============================================================================
``progress``  decodes a query's progress; counts rows from offsets
``arrivals``  arrival rate, backlog and oldest unprocessed row of a query, from its progress
``batches``   polls one query: its finished batches, with their stages and operators
``lead_time`` pending executor requests, and the lead time from request to first work
``monitor``   polls the application: all queries and executors, as readings and batches
============= =============================================================================
"""
