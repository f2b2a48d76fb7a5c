// The place of each entry among those of its row, ordered by a key.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Entries offsets[r] ... offsets[r + 1] - 1 of row r by ascending key, equal keys in the order in which they come, NaN
// last: the place 0 ... n_r - 1 of every entry.
std::vector<std::int32_t> row_positions(std::span<const std::int64_t> offsets, std::span<const double> keys, int threads);
std::vector<std::int32_t> row_positions(std::span<const std::int64_t> offsets, std::span<const std::int64_t> keys,
                                        int threads);

}  // namespace tastespace
