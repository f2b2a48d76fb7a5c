// What each past item of a user adds to the scores of some items, for models of several kinds: n_past x n_items, row by row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Entries of the rows of past items, times their weights (empty: 1), in the columns of the items.
std::vector<float> dense_entries(std::span<const float> matrix, std::int64_t n_items, std::span<const std::int32_t> past,
                                 std::span<const float> weights, std::span<const std::int32_t> items);
std::vector<float> sparse_entries(std::span<const std::int64_t> offsets, std::span<const std::int32_t> columns,
                                  std::span<const float> values, std::span<const std::int32_t> past,
                                  std::span<const float> weights, std::span<const std::int32_t> items);

// The scores of the items, each shared out among the past items in proportion to their inner products with the item; a
// negative one gets nothing.
std::vector<float> shared_scores(std::span<const float> vectors, std::int64_t dim, std::span<const std::int32_t> past,
                                 std::span<const std::int32_t> items, std::span<const float> scores);

// (1 + extra_i) <y_j, A^-1 y_i> for past items i and items j, with A = gram + ridge I + sum over i of extra_i y_i y_i'.
// `gram` is dim x dim. Empty where A is not positive definite.
std::vector<float> least_squares_evidence(std::span<const float> vectors, std::int64_t dim, std::span<const double> gram,
                                          double ridge, std::span<const std::int32_t> past,
                                          std::span<const double> extra, std::span<const std::int32_t> items);

}  // namespace tastespace
