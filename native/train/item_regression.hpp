// Item-to-item ridge regression: each item is predicted from the items nearest to it by cosine, in closed form.
//
// With all items as predictors this is EASE. Restricted to a few hundred of them, time and memory grow with the number of
// items, not with its cube and square.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/interrupt.hpp"

namespace tastespace {

struct ItemRegressionSettings {
  std::int64_t n_neighbors;  // predictors of an item, at most
  std::int64_t row_length;   // co-occurrences kept for each item, at most; what is left out counts as zero
  double regularization;     // lambda, added to the diagonal
  double self_weight;        // part of a predictor's own diagonal that is added to it: dropout / (1 - dropout)
};

// A sparse matrix of users and items by rows and by columns: row u holds items[user_offsets[u]] ... with user_values,
// column i holds users[item_offsets[i]] ... with item_values; both ascending.
struct ItemRegressionData {
  std::span<const std::int64_t> user_offsets;
  std::span<const std::int32_t> items;
  std::span<const float> user_values;
  std::span<const std::int64_t> item_offsets;
  std::span<const std::int32_t> users;
  std::span<const float> item_values;
};

// Item j is predicted from sources[offsets[j]] ... sources[offsets[j + 1] - 1], ascending, with these coefficients.
struct ItemRegression {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> sources;
  std::vector<float> coefficients;
};

// The same bits for every number of threads. After an interrupt some items have no coefficients.
ItemRegression fit_item_regression(const ItemRegressionData& data, const ItemRegressionSettings& settings, int threads,
                                   Interrupt& interrupt);

}  // namespace tastespace
