"""Pages of mapped arrays leave the memory of the process when asked to, and when a block is done."""

from pathlib import Path

import numpy as np
import pytest

from tastespace.data.out_of_core.mapped_arrays import (
    is_mapped,
    map_file,
    release,
    row_blocks,
)
from tastespace.store import directory as model_directory

MEGABYTES = 64


def resident_file_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) / 1024


@pytest.fixture
def mapped(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(np.ones(MEGABYTES << 18, np.float32).tobytes())
    return map_file(path, np.float32, (MEGABYTES << 10, 256))


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[5:], lambda a: memoryview(a), lambda a: memoryview(a)[3:7]])
def test_release_takes_all_pages_of_the_array_out_of_memory(mapped, view):
    before = resident_file_megabytes()
    assert mapped.sum() > 0
    assert resident_file_megabytes() > before + 0.9 * MEGABYTES
    release(view(mapped), np.zeros(3), b"bytes")  # what is not mapped is left alone
    assert resident_file_megabytes() < before + 0.1 * MEGABYTES
    assert mapped[-1, -1] == 1.0  # and comes back when it is used
    assert is_mapped(mapped)


def test_blocks_of_rows_and_saving_hold_a_part_of_a_mapped_array_in_memory_at_a_time(mapped, tmp_path, monkeypatch):
    before = resident_file_megabytes()
    for rows in row_blocks(mapped, n_bytes=4 << 20):
        assert mapped[rows].sum() > 0
        assert resident_file_megabytes() < before + 0.5 * MEGABYTES

    monkeypatch.setattr(model_directory, "_PIECE", 4 << 20)
    largest = []
    checksum = model_directory.crc32_of

    def observed(piece, before):
        largest.append(resident_file_megabytes())
        return checksum(piece, before=before)

    monkeypatch.setattr(model_directory, "crc32_of", observed)
    part = next(iter(model_directory.PARTS))
    model_directory._Save(tmp_path).write_part(part, [memoryview(mapped).cast("B")])
    assert len(largest) == MEGABYTES // 4
    assert max(largest) < before + 0.5 * MEGABYTES
