// Scores of a block of users that are split among the users' tastes: user b has the rows first[b] ... first[b + 1] - 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct AddedParts {
  std::vector<double> constants;  // of each user: what the mean of the member's scores takes from all of them
  std::int64_t bad = -1;          // first user with a score that is not finite, to whom nothing was added
};

// values += weight / deviation * parts, where the deviation is that of the user's scores, the sums of the parts.
AddedParts add_taste_parts(std::span<float> values, std::span<const float> parts, std::span<const std::int64_t> first,
                           std::int64_t n_columns, double weight, int threads);

// Add `rest`, n_users x n_columns, to the parts of each user in proportion to what raises the score; by `shares`, one
// for each row, where nothing does.
void spread_over_tastes(std::span<float> values, std::span<const float> rest, std::span<const std::int64_t> first,
                        std::span<const double> shares, std::int64_t n_columns, int threads);

struct TasteTotals {
  std::vector<float> scores;             // n_users x n_columns
  std::vector<std::int32_t> strongest;  // the row of the user that says most for the item, from 0, likewise
};

// (1 - focus) * sum + focus * maximum of the parts, each times its factor; empty factors are ones. Rows with the factor 0
// are as if they were not there, and a user with no other row has scores of 0.
TasteTotals taste_totals(std::span<const float> values, std::span<const std::int64_t> first,
                         std::span<const double> factors, double focus, std::int64_t n_columns, int threads);

}  // namespace tastespace
