"""The capacity model of engines without batches."""
