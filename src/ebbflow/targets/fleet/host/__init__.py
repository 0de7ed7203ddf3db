"""The host of an application: a Spark driver that runs queries as controllers ask, and goes on without them.

``queries`` starts and stops queries under their lease, ``application`` is the Spark application, and ``process`` serves
requests, announces the host and watches its leases.
"""
