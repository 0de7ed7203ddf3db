"""What is scaled. Each target is a monitor and an actuator behind ``core.ports.Target``."""
