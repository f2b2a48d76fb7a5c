// The past items of a user that are closest to each item of the user's list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct PastReasons {
  std::vector<std::int32_t> items;  // k for each listed item, the closest first; -1 where there are fewer
  std::vector<float> closeness;     // of each: minus the squared distance, or the inner product
};

// `listed[i]` is on the list of users[i], whose past items are past[offsets[u]] ... past[offsets[u + 1] - 1].
PastReasons past_reasons(std::span<const float> vectors, std::int64_t dim, bool by_distance,
                         std::span<const std::int64_t> offsets, std::span<const std::int32_t> past,
                         std::span<const std::int32_t> users, std::span<const std::int32_t> listed, std::int64_t k);

}  // namespace tastespace
