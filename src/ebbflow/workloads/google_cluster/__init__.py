"""The task events of Google's cluster trace of 2011: reading a folder of them, and making one."""
