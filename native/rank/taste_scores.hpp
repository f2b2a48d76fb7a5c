// Scores of a block of users that are split among the users' tastes: user b has the rows first[b] ... first[b + 1] - 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct TasteTotals {
  std::vector<float> scores;             // n_users x n_columns
  std::vector<std::int32_t> strongest;  // the row of the user that says most for the item, from 0, likewise
};

// (1 - focus) * sum + focus * maximum of the parts, each times its factor; empty factors are ones. Rows with the factor 0
// are as if they were not there, and a user with no other row has scores of 0.
TasteTotals taste_totals(std::span<const float> values, std::span<const std::int64_t> first,
                         std::span<const double> factors, double focus, std::int64_t n_columns, int threads);

}  // namespace tastespace
