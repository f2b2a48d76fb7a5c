#include "rank/list_order.hpp"

#include <algorithm>
#include <limits>

#include "core/parallel_errors.hpp"

namespace tastespace {

std::vector<std::int64_t> list_order(std::span<const std::int64_t> offsets, std::span<const float> scores,
                                     std::span<const std::int32_t> rows, int threads) {
  struct Entry {
    float score;
    std::int32_t row;
    std::int64_t at;
  };
  constexpr float kLast = -std::numeric_limits<float>::infinity();  // in place of NaN, by which nothing can be ordered
  const auto before = [](const Entry& a, const Entry& b) {
    return a.score != b.score ? a.score > b.score : a.row < b.row;
  };
  const auto n = static_cast<std::int64_t>(offsets.size()) - 1;
  std::vector<std::int64_t> order(scores.size());
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<Entry> entries;
#pragma omp for schedule(static)
    for (std::int64_t list = 0; list < n; ++list)
      errors.run([&] {
        entries.clear();
        for (std::int64_t e = offsets[list]; e < offsets[list + 1]; ++e) 
          entries.push_back({scores[e] == scores[e] ? scores[e] : kLast, rows[e], e});
        if (!std::is_sorted(entries.begin(), entries.end(), before))
          std::stable_sort(entries.begin(), entries.end(), before);
        for (std::size_t e = 0; e < entries.size(); ++e) order[offsets[list] + e] = entries[e].at;
      });
  }
  errors.rethrow();
  return order;
}

}  // namespace tastespace
