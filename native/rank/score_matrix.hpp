// Whole rows of scores, for models that combine the scores of several others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rank/block_scores.hpp"

namespace tastespace {

// Scores of all items for these users, n_users x n_items.
std::vector<float> score_users(const ScoringVectors& space,
                               std::span<const std::int32_t> users, int threads);

// Number of the user's vector that scores each item best, the first of equal ones: n_users x n_items.
std::vector<std::int32_t> nearest_interests(const ScoringVectors& space,
                                            std::span<const std::int32_t> users, int threads);

// total += weight * (scores - mean) / standard deviation, row by row; rows in which all scores are equal add nothing.
// Gives the first row that holds a score that is not finite, -1 where there is none; such rows add nothing.
std::int64_t add_standardized(std::span<float> total, std::span<const float> scores, std::int64_t n_columns,
                              float weight, int threads);

}  // namespace tastespace
