"""Answers for people: top lists."""
