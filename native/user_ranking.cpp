#include "user_ranking.hpp"

#include <algorithm>
#include <atomic>

#include "parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kTileBytes = 1 << 20;  // of scores: they should stay in the second-level cache
constexpr std::int64_t kTileUsers = 16;

// Collects ranks and top lists of a block of users, row of scores by row of scores.
class RankCollector {
 public:
  RankCollector(std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                std::int64_t n_items, std::int64_t k, std::span<const std::uint8_t> allowed = {})
      : users_(users), excluded_(excluded), test_(test), allowed_(allowed), n_items_(n_items), k_(k),
        starts_(users.size() + 1, 0) {
    for (std::size_t b = 0; b < users.size(); ++b)
      starts_[b + 1] = starts_[b] + static_cast<std::int64_t>(test.of(users[b]).size());
    out_.test_ranks.resize(starts_.back());
    out_.top.resize(users.size() * k);
  }

  void add_row(std::int64_t b, std::span<float> scores, TopBuffer& buffer) {
    const std::int32_t user = users_[b];
    if (!prepare_row(scores, n_items_, excluded_.of(user))) {
      record_nan(b);
      return;
    }
    exclude_others(scores, allowed_);
    rank_items(scores, test_.of(user), std::span(out_.test_ranks).subspan(starts_[b], starts_[b + 1] - starts_[b]));
    top_k(scores, std::span(out_.top).subspan(b * k_, k_), buffer);
  }

  Ranked finish() {
    out_.nan_user = nan_user_;
    return std::move(out_);
  }

 private:
  void record_nan(std::int64_t b) {  // the smallest position, whichever thread comes first
    std::int64_t known = nan_user_;
    while ((known < 0 || b < known) && !nan_user_.compare_exchange_weak(known, b)) {
    }
  }

  std::span<const std::int32_t> users_;
  const Lists& excluded_;
  const Lists& test_;
  std::span<const std::uint8_t> allowed_;
  std::int64_t n_items_, k_;
  std::vector<std::int64_t> starts_;
  std::atomic<std::int64_t> nan_user_{-1};
  Ranked out_;
};

}  // namespace

Ranked rank_with_vectors(const PackedItems& items, const UserVectors& model, float scale,
                         std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                         std::int64_t k, int threads, std::span<const std::uint8_t> allowed) {
  const auto n = static_cast<std::int64_t>(users.size());
  const std::int64_t stride = items.padded_items();
  const std::int64_t tile = std::clamp<std::int64_t>(kTileBytes / (4 * stride), 1, kTileUsers);
  RankCollector ranks(users, excluded, test, items.n_items(), k, allowed);
  ParallelErrors errors;
  // No thread without work: to start one takes longer than to rank for one user.
  const int workers = static_cast<int>(std::clamp<std::int64_t>((n + tile - 1) / tile, 1, threads));
#pragma omp parallel num_threads(workers)
  {
    std::vector<float> scores;
    GatheredRows gathered;
    TopBuffer buffer;
    errors.run([&] { scores.resize(tile * stride); });
#pragma omp for schedule(dynamic)
    for (std::int64_t first = 0; first < n; first += tile)
      errors.run([&] {
        const std::int64_t last = std::min(n, first + tile);
        gathered.gather(model, users.subspan(first, last - first), items.dim());
        score_block(items, gathered.rows(), scale, last - first, scores);
        for (std::int64_t b = first; b < last; ++b)
          ranks.add_row(b, std::span(scores).subspan((b - first) * stride, stride), buffer);
      });
  }
  errors.rethrow();
  return ranks.finish();
}

Ranked rank_with_scores(std::span<const float> scores, std::int64_t n_items,
                        std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                        std::int64_t k, int threads) {
  const auto n = static_cast<std::int64_t>(users.size());
  RankCollector ranks(users, excluded, test, n_items, k);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> row;  // a copy: the caller's scores stay as they are
    TopBuffer buffer;
    errors.run([&] { row.resize(n_items); });
#pragma omp for schedule(dynamic, 8)
    for (std::int64_t b = 0; b < n; ++b)
      errors.run([&] {
        std::copy_n(scores.begin() + b * n_items, n_items, row.begin());
        ranks.add_row(b, row, buffer);
      });
  }
  errors.rethrow();
  return ranks.finish();
}

}  // namespace tastespace
