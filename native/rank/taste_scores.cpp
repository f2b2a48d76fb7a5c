#include "rank/taste_scores.hpp"

#include <algorithm>
#include <limits>

#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

// Calls work(user, buffer) for all users in parallel; a buffer of n_columns numbers belongs to each thread.
template <class Work>
void for_users(std::int64_t n_users, std::int64_t n_columns, int threads, const Work& work) {
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> buffer;
    errors.run([&] { buffer.resize(n_columns); });
#pragma omp for schedule(dynamic, 8)
    for (std::int64_t user = 0; user < n_users; ++user) errors.run([&] { work(user, buffer.data()); });
  }
  errors.rethrow();
}

}  // namespace

TasteTotals taste_totals(std::span<const float> values, std::span<const std::int64_t> first,
                         std::span<const double> factors, double focus, std::int64_t n_columns, int threads) {
  const auto n_users = static_cast<std::int64_t>(first.size()) - 1;
  const std::int64_t n = n_users * n_columns;
  TasteTotals out{std::vector<float>(n), std::vector<std::int32_t>(n)};
  const auto of_largest = static_cast<float>(focus), of_sum = static_cast<float>(1.0 - focus);
  for_users(n_users, n_columns, threads, [&](std::int64_t user, float* largest) {
    float* sum = out.scores.data() + user * n_columns;
    std::int32_t* strongest = out.strongest.data() + user * n_columns;
    std::fill_n(largest, n_columns, -std::numeric_limits<float>::infinity());
    bool is_first = true;
    for (std::int64_t row = first[user]; row < first[user + 1]; ++row) {
      const auto factor = static_cast<float>(factors.empty() ? 1.0 : factors[row]);
      if (factor == 0.0f) continue;
      const float* from = values.data() + row * n_columns;
      const auto number = static_cast<std::int32_t>(row - first[user]);
      for (std::int64_t k = 0; k < n_columns; ++k) {
        const float value = factor * from[k];
        sum[k] += value;
        strongest[k] = value > largest[k] ? number : strongest[k];
        largest[k] = std::max(largest[k], value);
      }
      is_first = false;
    }
    if (is_first || focus == 0.0) return;
    for (std::int64_t k = 0; k < n_columns; ++k) sum[k] = of_sum * sum[k] + of_largest * largest[k];
  });
  return out;
}

}  // namespace tastespace
