// A block of users: the ranks of their test items and their top k, without a users x items matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rank/block_scores.hpp"
#include "rank/row_ranking.hpp"

namespace tastespace {

// One list of item indices per user.
struct Lists {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> items;
  std::span<const std::int32_t> of(std::int64_t user) const {
    return items.subspan(offsets[user], offsets[user + 1] - offsets[user]);
  }
};

struct Ranked {
  std::vector<TestRank> test_ranks;      // for each user of the block in turn, in the order of its test items
  std::vector<std::int32_t> top;  // n_users_of_block x k, -1 where there are fewer candidates
  std::int64_t nan_user = -1;     // position in the block of the first user with a NaN score
};

// `users` are rows of `excluded`, of `test` and of the vectors; test items must not be excluded. Where `allowed` is not
// empty it has a value for each item, and those with 0 are no candidates.
Ranked rank_with_vectors(const ScoringVectors& space,
                         std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                         std::int64_t k, int threads, std::span<const std::uint8_t> allowed = {});

// The same from a finished block of scores (n_users_of_block x n_items, larger is better).
Ranked rank_with_scores(std::span<const float> scores, std::int64_t n_items,
                        std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                        std::int64_t k, int threads);

}  // namespace tastespace
