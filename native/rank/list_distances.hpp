// Distances between the items of recommended lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// For each list (row of `top`, -1 at its end where it is short) and each cut: the sum of squared distances
// over ordered pairs of its first `cut` items. Shape n_lists x cuts.
std::vector<double> list_pair_distances(std::span<const std::int32_t> top, std::int64_t k,
                                        std::span<const float> vectors, std::int64_t dim,
                                        std::span<const std::int64_t> cuts, int threads);

}  // namespace tastespace
