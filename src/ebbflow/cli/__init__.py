"""The commands. Each is a thin coat over the library, in a file of its own."""
