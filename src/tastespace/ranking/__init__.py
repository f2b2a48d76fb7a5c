"""From scores or vectors to top-k lists and ranks, in blocks of users: the one way to a list."""
