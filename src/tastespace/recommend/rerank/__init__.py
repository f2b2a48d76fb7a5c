"""Re-ranking: a diverse list from a pool of good items, and models whose ranking is such a list."""
