// Groups of each user's past items by the directions of the items' vectors: the user's tastes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct TasteSettings {
  std::int64_t most;            // groups of a user, 1 or more
  std::int64_t items_per_taste;  // past items that a user needs for each group
  double least_gain;            // length that the sums of two groups, for each past item, must have more than their sum
};

// The group of each past item: past[offsets[u]] ... past[offsets[u + 1] - 1] are those of user u. Groups of a user are
// numbered from 0, the largest first. `vectors` are the items' directions, n_items x dim, each of length 1 or 0.
//
// Spherical k-means from far apart items finds more groups than are wanted; then the two groups are merged whose sums
// lose least length, until there are few enough, none has a single item, and all others differ by `least_gain`.
std::vector<std::int32_t> taste_groups(std::span<const float> vectors, std::int64_t dim,
                                       std::span<const std::int64_t> offsets, std::span<const std::int32_t> past,
                                       const TasteSettings& settings, int threads);

}  // namespace tastespace
