#include "pair_scores.hpp"

#include "simd.hpp"

namespace tastespace {

PairScores pair_scores(std::span<const float> user_vectors, std::span<const std::int64_t> offsets,
                       std::span<const float> item_vectors, std::int64_t dim, const Comparison& comparison,
                       std::span<const std::int32_t> users, std::span<const std::int32_t> items, int threads) {
  const auto n = static_cast<std::int64_t>(users.size());
  PairScores out{std::vector<float>(n), std::vector<std::int32_t>(n)};
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t p = 0; p < n; ++p) {
    const float* item = item_vectors.data() + items[p] * dim;
    const std::int64_t first = offsets[users[p]], last = offsets[users[p] + 1];
    for (std::int64_t x = first; x < last; ++x) {
      const float* vector = user_vectors.data() + x * dim;
      const float score =
          comparison.by_distance ? -simd::squared_distance(vector, item, dim) : simd::dot(vector, item, dim);
      if (x == first || score > out.score[p]) {
        out.score[p] = score;
        out.interest[p] = static_cast<std::int32_t>(x - first);
      }
    }
    if (!comparison.by_distance && !comparison.item_bias.empty()) out.score[p] += comparison.item_bias[items[p]];
  }
  return out;
}

}  // namespace tastespace
