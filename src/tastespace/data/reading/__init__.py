"""Tables of interactions as users have them: frames, Parquet, CSV, JSON lines, files of RecBole."""
