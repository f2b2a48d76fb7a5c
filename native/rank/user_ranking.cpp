#include "rank/user_ranking.hpp"

#include <algorithm>

#include "core/parallel_errors.hpp"
#include "rank/scored_rows.hpp"

namespace tastespace {
namespace {

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
      nan_user_.report(b);
      return;
    }
    exclude_others(scores, allowed_);
    rank_items(scores, test_.of(user), std::span(out_.test_ranks).subspan(starts_[b], starts_[b + 1] - starts_[b]));
    top_k(scores, std::span(out_.top).subspan(b * k_, k_), buffer);
  }

  Ranked finish() {
    out_.nan_user = nan_user_.get();
    return std::move(out_);
  }

 private:
  std::span<const std::int32_t> users_;
  const Lists& excluded_;
  const Lists& test_;
  std::span<const std::uint8_t> allowed_;
  std::int64_t n_items_, k_;
  std::vector<std::int64_t> starts_;
  FirstPosition nan_user_;
  Ranked out_;
};

}  // namespace

Ranked rank_with_vectors(const ScoringVectors& space,
                         std::span<const std::int32_t> users, const Lists& excluded, const Lists& test,
                         std::int64_t k, int threads, std::span<const std::uint8_t> allowed) {
  RankCollector ranks(users, excluded, test, space.items->n_items(), k, allowed);
  for_scored_rows<TopBuffer>(space, users, threads,
                             [&](std::int64_t b, std::span<float> row, TopBuffer& buffer) {
                               ranks.add_row(b, row, buffer);
                             });
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
