"""Models that learn with torch (the `neural` extra)."""
