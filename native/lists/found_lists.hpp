// Top lists of users from items that searches near their vectors have found, by exact scores.
#pragma once

#include <cstdint>
#include <span>

#include "rank/user_lists.hpp"

namespace tastespace {

// `found` has `depth` items for each vector of each of `users` in turn, in any order; what is no row of an item is left
// out, as are excluded items, which ascend for each user. Ordered by score, equal scores by item.
UserLists list_found(const UserVectors& model, std::int64_t dim, const ExactItems& exact,
                     std::span<const std::int32_t> users, std::span<const std::int64_t> found, std::int64_t depth,
                     const Lists& excluded, std::int64_t k, int threads);

}  // namespace tastespace
