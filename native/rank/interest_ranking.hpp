// A block of users: lists in which all interests of a user have a part, in one pass over the items.
//
// An item belongs to the interest whose vector scores it best, the first of equal ones. Places are shared out by
// `share_places`, and an interest fills its places with its best items in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rank/block_scores.hpp"
#include "rank/user_ranking.hpp"

namespace tastespace {

struct MixSettings {
  double diversity;    // in (0, 1]
  std::int64_t depth;  // place of the list by score whose relevance is 0, the last where there are fewer; 1 or more
  std::int64_t k;      // length of the lists
};

struct MixedLists {
  std::vector<std::int32_t> top;        // n_users_of_block x k items, -1 where there are fewer candidates
  std::vector<std::int32_t> interests;  // the interest that has each place, -1 likewise
  std::int64_t nan_user = -1;           // position in the block of the first user with a NaN score
};

// Ranked by the scores that the vectors give. `weights` has one for each vector of each user of the block in turn.
MixedLists mix_with_vectors(const ScoringVectors& space,
                            std::span<const std::int32_t> users, std::span<const double> weights,
                            const Lists& excluded, const MixSettings& settings, int threads);

// Ranked by a finished block of scores, larger is better, with the interest of each item: n_users_of_block x n_items
// both. The interests of user b of the block have weights[first_weights[b]] ... weights[first_weights[b + 1] - 1].
MixedLists mix_with_scores(std::span<const float> scores, std::span<const std::int32_t> interests,
                           std::span<const std::int32_t> users, std::span<const double> weights,
                           std::span<const std::int64_t> first_weights, const Lists& excluded,
                           const MixSettings& settings, int threads);

}  // namespace tastespace
