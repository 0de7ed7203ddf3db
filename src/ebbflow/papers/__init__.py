"""One package per document that Ebbflow reproduces, with everything that belongs to it."""
