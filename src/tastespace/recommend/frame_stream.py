"""Frames that are computed one after the other, written to one file."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import IO, Any

import polars as pl
from polars.io.plugins import register_io_source

STREAMED = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson"}
"""Endings of the files that can be written, and how."""
_AHEAD = 2  # frames that wait to be written


def write_frames(frames: Iterable[pl.DataFrame], schema: dict[str, Any], file: IO[bytes], ending: str) -> int:
    r"""Write frames as they come, in order, and give the number of rows.

    polars writes in a thread while the caller's computes: the main thread has to run Python for Ctrl-C to be handled,
    which inside of polars it does only at the end.

    >>> import io
    >>> text = io.BytesIO()
    >>> write_frames([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], {"a": pl.Int64}, text, ".csv")
    2
    >>> text.getvalue()
    b'a\n1\n2\n'
    """
    waiting: queue.Queue[pl.DataFrame | None] = queue.Queue(_AHEAD)
    ended_early = threading.Event()
    problems: list[BaseException] = []

    def source(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        while True:
            if ended_early.is_set():
                raise OSError("the frames ended early")
            try:
                frame = waiting.get(timeout=0.1)
            except queue.Empty:
                continue
            if frame is None:
                return
            yield frame

    def write() -> None:
        try:
            getattr(register_io_source(io_source=source, schema=schema), STREAMED[ending])(file, maintain_order=True)
        except BaseException as problem:
            problems.append(problem)

    def put(frame: pl.DataFrame | None) -> None:
        while writer.is_alive():
            try:
                waiting.put(frame, timeout=0.2)
                break
            except queue.Full:  # is it alive?
                continue

    writer = threading.Thread(target=write, name="tastespace-writer", daemon=True)
    writer.start()
    written = 0
    try:
        for frame in frames:
            put(frame)
            written += len(frame)
            if not writer.is_alive():
                break
        put(None)
        while writer.is_alive():  # as in `tastespace.interrupts`: a wait without an end may not notice Ctrl-C
            writer.join(0.1)
    except BaseException:  # Ctrl-C as well: the caller removes what was written
        ended_early.set()
        writer.join(0.5)
        raise
    if problems:
        raise problems[0]
    return written
