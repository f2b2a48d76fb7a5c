// Top lists of users with the exact score and the interest of each item, in one call.
//
// Items are found by `score_block`, with distances from the expanded square. Their scores are then computed again from
// the differences themselves (`pair_score`), and that is the order in which they are given.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rank/block_scores.hpp"
#include "rank/pair_scores.hpp"
#include "rank/user_ranking.hpp"

namespace tastespace {

struct UserLists {
  std::vector<std::int32_t> top;       // n_users x k, -1 where there are fewer candidates
  std::vector<float> scores;           // of each; NaN where there is none
  std::vector<std::int32_t> interests;  // the user's vector that gives it; -1 where there is none
  std::int64_t n_found = 0;            // entries of `top` that are items
  std::int64_t nan_user = -1;          // position of the first user with a NaN score
};

// Vectors that the items that are found are scored by.
struct ExactItems {
  std::span<const float> vectors;      // of all items
  Comparison comparison;
  std::span<const std::int32_t> rows;  // the rows of those in `PackedItems`, in their order; empty: all
};

// `users` are rows of `excluded` and of the vectors; excluded items and `allowed` are in the order of `space.items`.
UserLists list_with_vectors(const ScoringVectors& space, const ExactItems& exact,
                            std::span<const std::int32_t> users, const Lists& excluded, std::int64_t k, int threads,
                            std::span<const std::uint8_t> allowed = {});

}  // namespace tastespace
