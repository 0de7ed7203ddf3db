"""The two applications of Elysium §5.1 as PySpark pipelines."""
