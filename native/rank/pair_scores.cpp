#include "rank/pair_scores.hpp"

#include "core/parallel_errors.hpp"
#include "core/simd.hpp"

namespace tastespace {

PairScore pair_score(const float* user_vectors, std::int64_t n_vectors, const float* item_vectors, std::int64_t dim,
                     const Comparison& comparison, std::int64_t item, std::vector<float>& scores) {
  const float* vector = item_vectors + item * dim;
  scores.resize(n_vectors);
  if (comparison.by_distance) {
    simd::squared_distances(user_vectors, n_vectors, vector, dim, scores.data());
    for (float& score : scores) score = -score;
  } else {
    for (std::int64_t x = 0; x < n_vectors; ++x) scores[x] = simd::dot(user_vectors + x * dim, vector, dim);
  }
  PairScore best{0.0f, 0};
  for (std::int64_t x = 0; x < n_vectors; ++x)
    if (x == 0 || scores[x] > best.score) best = {scores[x], static_cast<std::int32_t>(x)};
  if (!comparison.by_distance && !comparison.item_bias.empty()) best.score += comparison.item_bias[item];
  return best;
}

PairScores pair_scores(std::span<const float> user_vectors, std::span<const std::int64_t> offsets,
                       std::span<const float> item_vectors, std::int64_t dim, const Comparison& comparison,
                       std::span<const std::int32_t> users, std::span<const std::int32_t> items, int threads) {
  const auto n = static_cast<std::int64_t>(users.size());
  PairScores out{std::vector<float>(n), std::vector<std::int32_t>(n)};
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> scores;  // of the user's vectors
#pragma omp for schedule(static)
    for (std::int64_t p = 0; p < n; ++p)
      errors.run([&] {
        const std::int64_t from = offsets[users[p]], n_vectors = offsets[users[p] + 1] - from;
        const PairScore best = pair_score(user_vectors.data() + from * dim, n_vectors, item_vectors.data(), dim,
                                          comparison, items[p], scores);
        out.score[p] = best.score;
        out.interest[p] = best.interest;
      });
  }
  errors.rethrow();
  return out;
}

}  // namespace tastespace
