// Streaming evaluation: for a block of users, the places of their test items and the top of their lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ranking.hpp"
#include "scoring.hpp"

namespace tastespace {

// One list of item indices per user.
struct Lists {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> items;
  std::span<const std::int32_t> of(std::int64_t user) const {
    return items.subspan(offsets[user], offsets[user + 1] - offsets[user]);
  }
};

// Multi-vector users: user u owns the vectors offsets[u] ... offsets[u + 1] - 1.
struct Users {
  std::span<const float> vectors;
  std::span<const float> terms;
  std::span<const std::int64_t> offsets;
};

struct Ranked {
  std::vector<Place> places;      // for each user of the block in turn, in the order of its test items
  std::vector<std::int32_t> top;  // n_users_of_block x k, -1 where there are fewer candidates
  std::int64_t nan_user = -1;     // position in the block of the first user with a NaN score
};

// `users` are rows of `excluded`, of `test` and of the model; test items must not be excluded.
Ranked rank_with_vectors(const PackedItems& items, const Users& model, float scale,
                         std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                         std::int64_t k, int threads);

// The same from a finished block of scores (n_users_of_block x n_items, larger is better).
Ranked rank_with_scores(std::span<const float> scores, std::int64_t n_items,
                        std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                        std::int64_t k, int threads);

// For each list (row of `top`, -1 at its end where it is short) and each cut: the sum of squared distances
// over ordered pairs of its first `cut` items. Shape n_lists x cuts.
std::vector<double> list_spread(std::span<const std::int32_t> top, std::int64_t k,
                                std::span<const float> vectors, std::int64_t dim,
                                std::span<const std::int64_t> cuts, int threads);

}  // namespace tastespace
