"""`Interactions` that are larger than memory: rows in mapped files, built in passes over the table."""
