"""From a score source to top-k lists and ranks, in blocks of users: the one way to a list.

`source` is what is ranked (vectors, or a function of users), `blocks` ranks it with the native kernels, `scoring` asks
it all questions about a fitted model, and `ann` answers some of them without looking at all items.
"""
