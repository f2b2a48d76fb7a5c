// Scores of single (user, item) pairs, from vectors, and which of the user's vectors gives each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct PairScores {
  std::vector<float> score;           // larger is better
  std::vector<std::int32_t> interest;  // the first of the user's vectors that reaches the score
};

// Comparison of a vector and an item.
struct Comparison {
  bool by_distance;                  // minus the squared distance; otherwise the inner product plus a bias
  std::span<const float> item_bias;  // empty, or one for each item
};

struct PairScore {
  float score;
  std::int32_t interest;
};

// Of one user, who owns at least one vector, and one item; `scores` is reusable memory.
PairScore pair_score(const float* user_vectors, std::int64_t n_vectors, const float* item_vectors, std::int64_t dim,
                     const Comparison& comparison, std::int64_t item, std::vector<float>& scores);

// Distances are taken from the differences themselves, so that an item at a user's vector has distance 0.
// User u owns the vectors offsets[u] ... offsets[u + 1] - 1, at least one.
PairScores pair_scores(std::span<const float> user_vectors, std::span<const std::int64_t> offsets,
                       std::span<const float> item_vectors, std::int64_t dim, const Comparison& comparison,
                       std::span<const std::int32_t> users, std::span<const std::int32_t> items, int threads);

}  // namespace tastespace
