#include "pair_scores.hpp"

#include "parallel_errors.hpp"
#include "simd.hpp"

namespace tastespace {

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
        const float* item = item_vectors.data() + items[p] * dim;
        const std::int64_t n_vectors = offsets[users[p] + 1] - offsets[users[p]];
        const float* vectors = user_vectors.data() + offsets[users[p]] * dim;
        scores.resize(n_vectors);
        if (comparison.by_distance) {
          simd::squared_distances(vectors, n_vectors, item, dim, scores.data());
          for (float& score : scores) score = -score;
        } else {
          for (std::int64_t x = 0; x < n_vectors; ++x) scores[x] = simd::dot(vectors + x * dim, item, dim);
        }
        for (std::int64_t x = 0; x < n_vectors; ++x)
          if (x == 0 || scores[x] > out.score[p]) {
            out.score[p] = scores[x];
            out.interest[p] = static_cast<std::int32_t>(x);
          }
        if (!comparison.by_distance && !comparison.item_bias.empty()) out.score[p] += comparison.item_bias[items[p]];
      });
  }
  errors.rethrow();
  return out;
}

}  // namespace tastespace
