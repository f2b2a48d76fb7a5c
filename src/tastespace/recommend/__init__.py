"""InferenceMixin for people: top lists."""
