// The order of lists by scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Entries of each list, offsets[l] ... offsets[l + 1] - 1, by larger score, equal scores by ascending row: which entry is
// at each place.
std::vector<std::int64_t> list_order(std::span<const std::int64_t> offsets, std::span<const float> scores,
                                     std::span<const std::int32_t> rows, int threads);

}  // namespace tastespace
