"""Helpers that belong to no package: files, checks of arguments, caches, threads, memory, terminals."""
