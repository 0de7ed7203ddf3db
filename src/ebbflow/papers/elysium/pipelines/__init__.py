"""The two applications of Elysium (§5.1) as PySpark pipelines: top-k words (T1) and sentiment (T2)."""
