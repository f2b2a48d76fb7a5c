#include "rank/list_distances.hpp"

#include <algorithm>

#include "core/parallel_errors.hpp"

namespace tastespace {

std::vector<double> list_pair_distances(std::span<const std::int32_t> top, std::int64_t k,
                                        std::span<const float> vectors, std::int64_t dim,
                                        std::span<const std::int64_t> cuts, int threads) {
  const auto n_cuts = static_cast<std::int64_t>(cuts.size());
  const std::int64_t n_lists = k ? static_cast<std::int64_t>(top.size()) / k : 0;
  std::vector<double> out(n_lists * n_cuts, 0.0);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    // Sum over ordered pairs of |a - b|^2 = 2 (m * sum |a|^2 - |sum a|^2): one pass instead of m^2.
    std::vector<double> total;
    errors.run([&] { total.resize(dim); });
    const bool has_memory = static_cast<std::int64_t>(total.size()) == dim;
#pragma omp for schedule(static)
    for (std::int64_t list = 0; list < n_lists; ++list) {
      if (!has_memory) continue;
      std::fill(total.begin(), total.end(), 0.0);
      double squares = 0.0;
      std::int64_t taken = 0;
      for (std::int64_t c = 0; c < n_cuts; ++c) {  // cuts ascend
        for (; taken < cuts[c] && taken < k && top[list * k + taken] >= 0; ++taken) {
          const float* v = vectors.data() + top[list * k + taken] * dim;
#pragma omp simd reduction(+ : squares)
          for (std::int64_t d = 0; d < dim; ++d) {
            total[d] += v[d];
            squares += static_cast<double>(v[d]) * v[d];
          }
        }
        double length = 0.0;
#pragma omp simd reduction(+ : length)
        for (std::int64_t d = 0; d < dim; ++d) length += total[d] * total[d];
        out[list * n_cuts + c] = 2.0 * (static_cast<double>(taken) * squares - length);
      }
    }
  }
  errors.rethrow();
  return out;
}

}  // namespace tastespace
