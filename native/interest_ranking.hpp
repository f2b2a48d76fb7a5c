// A block of users: the best items of each of a user's interests, in one pass over the items.
//
// An item belongs to the interest whose vector scores it best, the first of equal ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block_scores.hpp"
#include "user_ranking.hpp"

namespace tastespace {

struct InterestLists {
  std::vector<std::int32_t> top;  // a row of k items for each vector of each user of the block, -1 where there are fewer
  std::vector<float> range;       // for each user the best score and the depth-th best (the last where there are fewer)
  std::int64_t nan_user = -1;     // position in the block of the first user with a NaN score
};

// Ranked by the scores that the vectors give. A user without candidates has the range (0, 0).
InterestLists interest_lists_with_vectors(const PackedItems& items, const UserVectors& model, float scale,
                                          std::span<const std::int32_t> users, const Lists& excluded, std::int64_t k,
                                          std::int64_t depth, int threads);

// Ranked by a finished block of scores (n_users_of_block x n_items, larger is better); vectors only tell the interests.
InterestLists interest_lists_with_scores(const PackedItems& items, const UserVectors& model, float scale,
                                         std::span<const float> scores, std::span<const std::int32_t> users,
                                         const Lists& excluded, std::int64_t k, std::int64_t depth, int threads);

}  // namespace tastespace
