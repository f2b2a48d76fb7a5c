"""The command line: a thin layer over the library."""

from tastespace.cli.app import app, main

__all__ = ["app", "main"]
