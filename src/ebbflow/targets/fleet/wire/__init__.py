"""How controllers and hosts talk: typed messages (``messages``) over ZeroMQ sockets (``sockets``)."""
