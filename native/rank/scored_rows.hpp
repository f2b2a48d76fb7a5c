// Rows of scores of some users, a few users at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "rank/block_scores.hpp"
#include "core/parallel_errors.hpp"

namespace tastespace {

// Calls `use(b, row, scratch)` for each position b in `users`, in parallel, with its scores of all items (padded, see
// `score_block`), which `use` may change. Each thread has a `Scratch` of its own.
template <class Scratch, class Use>
void for_scored_rows(const ScoringVectors& space,
                     std::span<const std::int32_t> users, int threads, const Use& use) {
  const PackedItems& items = *space.items;
  constexpr std::int64_t kTileBytes = 1 << 20;  // of scores: they should stay in the second-level cache
  constexpr std::int64_t kTileUsers = 16;
  const auto n = static_cast<std::int64_t>(users.size());
  const std::int64_t stride = items.padded_items();
  const std::int64_t fitting = kTileBytes / (4 * std::max<std::int64_t>(1, stride));
  const std::int64_t tile = std::clamp<std::int64_t>(fitting, 1, std::clamp<std::int64_t>(n, 1, kTileUsers));
  // No thread without work: to start one takes longer than to rank for one user.
  const int workers = static_cast<int>(std::clamp<std::int64_t>((n + tile - 1) / tile, 1, threads));
  ParallelErrors errors;
#pragma omp parallel num_threads(workers)
  {
    std::vector<float> scores;
    GatheredRows gathered;
    Scratch scratch;
    errors.run([&] { scores.resize(tile * stride); });
#pragma omp for schedule(dynamic)
    for (std::int64_t first = 0; first < n; first += tile)
      errors.run([&] {
        const std::int64_t last = std::min(n, first + tile);
        gathered.gather(space.users, users.subspan(first, last - first), items.dim());
        score_block(items, gathered.rows(), space.scale, last - first, scores);
        for (std::int64_t b = first; b < last; ++b)
          use(b, std::span(scores).subspan((b - first) * stride, stride), scratch);
      });
  }
  errors.rethrow();
}

// The smallest of the positions that threads report.
class FirstPosition {
 public:
  void report(std::int64_t b) {
    std::int64_t known = first_;
    while ((known < 0 || b < known) && !first_.compare_exchange_weak(known, b)) {
    }
  }
  // -1: none.
  std::int64_t get() const { return first_; }

 private:
  std::atomic<std::int64_t> first_{-1};
};

}  // namespace tastespace
