"""Answers about one model as plain dataclasses: the same for the server, the notebook widget and pages in a file."""
