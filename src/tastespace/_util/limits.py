"""Limits of what is accepted from outside, all in one place: SECURITY.md has a table with a line for each.

Those of requests that `tastespace.serve.settings.Limits` repeats are defaults, which an operator may change.
"""

# ---- tables, archives, filters -----------------------------------------------------------------------------------

ID_BYTES = 1_000
"""Bytes of an id that is text: in UTF-8 in tables, as JSON in requests, which is how feedback stores it."""
ARCHIVE_BYTES = 8 << 30
"""Bytes of an unpacked file of an archive: a few kilobytes can unpack to more than there is memory."""
ARCHIVE_FILES = 100_000
"""Files of an archive."""
DOWNLOAD_BYTES = 4_000_000_000
"""Bytes of a download; the largest of the catalog has 66 MB."""
FILTER_CHARACTERS = 20_000
"""Characters of a filter."""
FILTER_TERMS = 100
"""Comparisons, ``not`` and parentheses of a filter. A list behind ``in`` is one."""
FILTER_NESTED = 20
"""Parentheses of a filter inside each other."""

# ---- requests ----------------------------------------------------------------------------------------------------

HEAD_BYTES = 32_768
"""Bytes of the head of a request: its path and its headers, those after a body in pieces included."""
HEAD_LINES = 100
"""Headers of a request."""
QUERY_CHARACTERS = 16_384
"""Characters of a query."""
QUERY_FIELDS = 200
"""Fields of a query."""
BODY_BYTES = 1_048_576
"""Bytes of a body."""
REQUEST_SECONDS = 10.0
"""For a client to send its request."""
SENT_BYTES = 65_536
"""Bytes of an answer that a client must have taken when as much time has passed as it has for sending a request."""
ANSWER_SECONDS = 10.0
"""For an answer."""
REQUESTS_AT_ONCE = 4_096
"""Requests that a worker answers at once."""
REQUEST_K = 1_000
"""Items in a list."""
REQUEST_LISTS = 1_000
"""Users, histories, rows of features or events in one request."""
REQUEST_HISTORY = 10_000
"""Items in one history."""
LIST_ITEMS = 50_000
"""Items in all lists of one answer: the length times the number of lists."""
PAGE_ITEMS = 1_000
"""Items on all pages of a list: the token of the next page names them."""
FEATURE_CELLS = 200_000
"""Persons times distinct names of features in one request: the cells of the table that they form."""
FEATURE_NAME = 200
"""Characters of the name of a feature."""

# ---- feedback ----------------------------------------------------------------------------------------------------

EVENT_ID = 200
"""Characters of an event id. Together with a user id it fits into a row of an index of PostgreSQL (2,704 bytes)."""
EVENT_YEARS = 1970, 2199
"""First and last year of the time of an event. Nanoseconds since 1970 have 64 bits until 2262."""
EVENT_WEIGHT = 1_000_000
"""Largest weight of an event; the smallest is above 0."""
ITEM_BYTES = 20_000
"""Bytes of the attributes of an item, as JSON."""
IMPRESSIONS_WAITING = 50_000
"""Lists that were shown and wait to be logged; they are written about once a second."""
IMPRESSIONS_KEPT = 2_000_000
"""Lists that were shown and are kept."""
RECOMMENDATION_ID = 64
"""Characters of the id of an answer in an event."""
WRITES_WAITING = 2_000
"""Requests whose feedback waits to be stored."""
STORE_READ_SECONDS = 2.0
"""For one answer of PostgreSQL while lists wait: they can do without, and are then made from what is known."""
STORE_WRITE_SECONDS = 8.0
"""For one answer of PostgreSQL while feedback waits: shorter than the time limit of a request."""
STORE_ROWS = 10_000
"""Rows that are read from the store at once, so that the time limit does not depend on its size."""
