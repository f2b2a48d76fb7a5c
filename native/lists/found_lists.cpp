#include "lists/found_lists.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/parallel_errors.hpp"
#include "rank/scored_rows.hpp"
#include "core/simd.hpp"

namespace tastespace {
namespace {

constexpr std::size_t kRowsAhead = 16;  // item vectors prefetched before they are compared

struct Entry {
  float score;
  std::int32_t item, interest;
};

bool before(const Entry& a, const Entry& b) { return a.score != b.score ? a.score > b.score : a.item < b.item; }

}  // namespace

UserLists list_found(const UserVectors& model, std::int64_t dim, const ExactItems& exact,
                     std::span<const std::int32_t> users, std::span<const std::int64_t> found, std::int64_t depth,
                     const Lists& excluded, std::int64_t k, int threads) {
  const auto n_items = static_cast<std::int64_t>(exact.vectors.size()) / std::max<std::int64_t>(1, dim);
  const auto n = static_cast<std::int64_t>(users.size());
  const auto size = static_cast<std::size_t>(n * k);
  UserLists out{std::vector<std::int32_t>(size, -1), std::vector<float>(size, std::numeric_limits<float>::quiet_NaN()),
                std::vector<std::int32_t>(size, -1)};
  std::vector<std::int64_t> first(n + 1, 0);  // row of `found` at which a user begins
  for (std::int64_t b = 0; b < n; ++b)
    first[b + 1] = first[b] + model.offsets[users[b] + 1] - model.offsets[users[b]];
  std::atomic<std::int64_t> n_found{0};
  FirstPosition nan_user;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<std::int32_t> items;
    std::vector<Entry> entries;
    std::vector<float> scores;
#pragma omp for schedule(dynamic, 4)
    for (std::int64_t b = 0; b < n; ++b)
      errors.run([&] {
        items.clear();
        for (std::int64_t i = first[b] * depth; i < first[b + 1] * depth; ++i)
          if (found[i] >= 0 && found[i] < n_items) items.push_back(static_cast<std::int32_t>(found[i]));
        std::sort(items.begin(), items.end());
        items.erase(std::unique(items.begin(), items.end()), items.end());
        const std::span<const std::int32_t> left_out = excluded.of(users[b]);
        std::erase_if(items, [left_out](std::int32_t item) {
          return std::binary_search(left_out.begin(), left_out.end(), item);
        });
        const std::int64_t from = model.offsets[users[b]], n_vectors = model.offsets[users[b] + 1] - from;
        entries.clear();
        for (std::size_t i = 0; i < items.size(); ++i) {
          if (i + kRowsAhead < items.size()) simd::prefetch(exact.vectors.data() + items[i + kRowsAhead] * dim, dim);
          const PairScore best = pair_score(model.vectors.data() + from * dim, n_vectors, exact.vectors.data(), dim,
                                            exact.comparison, items[i], scores);
          if (best.score != best.score) return nan_user.report(b);
          entries.push_back({best.score, items[i], best.interest});
        }
        const auto kept = std::min<std::int64_t>(k, static_cast<std::int64_t>(entries.size()));
        std::partial_sort(entries.begin(), entries.begin() + kept, entries.end(), before);
        for (std::int64_t i = 0; i < kept; ++i) {
          out.top[b * k + i] = entries[i].item;
          out.scores[b * k + i] = entries[i].score;
          out.interests[b * k + i] = entries[i].interest;
        }
        n_found += kept;
      });
  }
  errors.rethrow();
  out.n_found = n_found;
  out.nan_user = nan_user.get();
  return out;
}

}  // namespace tastespace
