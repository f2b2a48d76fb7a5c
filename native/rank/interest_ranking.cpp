#include "rank/interest_ranking.hpp"

#include <algorithm>
#include <limits>

#include "core/parallel_errors.hpp"
#include "lists/share_places.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kTileBytes = 1 << 20;  // of scores and interests: they should stay in the second-level cache
constexpr std::int64_t kTileUsers = 16;
constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// Makes the list of one user after the other; belongs to one thread.
class ListMaker {
 public:
  explicit ListMaker(const MixSettings& settings) : settings_(settings) {}

  // From a prepared row of scores; `top` and `places` have length k.
  void make(std::span<const float> scores, std::span<const std::int32_t> interests, std::span<const double> weights,
            std::span<std::int32_t> top, std::span<std::int32_t> places) {
    scores_ = scores;
    interests_ = interests;
    is_split_ = false;
    claims_.clear();
    std::fill(top.begin(), top.end(), -1);
    std::fill(places.begin(), places.end(), -1);
    if (weights.empty()) return;  // a user without vectors has no interest that an item could match
    for (const double weight : weights) claims_.push_back({weight, 0});
    for (std::size_t i = 0; i < scores.size(); ++i) claims_[interests[i]].n_items += scores[i] > kExcluded;
    if (best_.size() < claims_.size()) best_.resize(claims_.size());
    if (settings_.diversity < 1.0) {
      const Relevance relevance = start_from_plain_list();
      const auto next_score = [&](std::int32_t x, std::int64_t n) {
        if (n >= static_cast<std::int64_t>(best_[x].size())) find_best(x, std::min(settings_.k, claims_[x].n_items));
        return scores[best_[x][n]];
      };
      share_places(claims_, settings_.diversity, relevance, next_score, places);
    } else {  // the numbers of places do not depend on the scores: only as many items are looked for
      share_places(claims_, 1.0, Relevance(0.0f, 0.0f), [](std::int32_t, std::int64_t) { return 0.0f; }, places);
      for (std::size_t x = 0; x < claims_.size(); ++x) find_best(x, claims_[x].n_places);
    }
    used_.assign(claims_.size(), 0);
    for (std::size_t i = 0; i < top.size(); ++i) top[i] = places[i] < 0 ? -1 : best_[places[i]][used_[places[i]]++];
  }

 private:
  // The first items of each interest are those in the list by score, whose length `depth` also says what is relevant.
  Relevance start_from_plain_list() {
    std::int64_t n_candidates = 0;
    for (std::size_t x = 0; x < claims_.size(); ++x) {
      n_candidates += claims_[x].n_items;
      best_[x].clear();
    }
    plain_.resize(std::min(settings_.depth, n_candidates));
    if (plain_.empty()) return {0.0f, 0.0f};
    top_k(scores_, plain_, buffer_);
    for (const std::int32_t item : plain_) best_[interests_[item]].push_back(item);
    return {scores_[plain_.front()], scores_[plain_.back()]};
  }

  // The n best items of an interest, which has at least as many.
  void find_best(std::size_t x, std::int64_t n) {
    if (!is_split_) split();
    best_[x].resize(n);
    const std::int64_t from = first_[x];
    top_k(std::span<const float>(scores_of_).subspan(from, first_[x + 1] - from), best_[x], buffer_);
    for (std::int32_t& one : best_[x]) one = items_of_[from + one];
  }

  // Candidates by interest, in their order.
  void split() {
    first_.assign(claims_.size() + 1, 0);
    for (std::size_t x = 0; x < claims_.size(); ++x) first_[x + 1] = first_[x] + claims_[x].n_items;
    next_.assign(first_.begin(), first_.end() - 1);
    scores_of_.resize(first_.back());
    items_of_.resize(first_.back());
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      if (!(scores_[i] > kExcluded)) continue;
      const std::int64_t at = next_[interests_[i]]++;
      scores_of_[at] = scores_[i];
      items_of_[at] = static_cast<std::int32_t>(i);
    }
    is_split_ = true;
  }

  MixSettings settings_;
  std::span<const float> scores_;
  std::span<const std::int32_t> interests_;
  bool is_split_ = false;
  std::vector<Claim> claims_;
  std::vector<std::int64_t> first_, next_, used_;
  std::vector<float> scores_of_;
  std::vector<std::int32_t> items_of_, plain_;
  std::vector<std::vector<std::int32_t>> best_;  // of each interest, best first, as far as needed
  TopBuffer buffer_;
};

// Lists of a block of users. `fill(first, last, scores, interests)` writes the rows of users first ... last - 1 of the
// block, each of `stride` numbers of which n_items count.
template <class MakeFill>
MixedLists mix(std::int64_t stride, std::int64_t n_items, std::span<const std::int32_t> users,
               std::span<const double> weights, std::span<const std::int64_t> first_weights, const Lists& excluded,
               const MixSettings& settings, int threads, MakeFill make_fill) {
  const auto n = static_cast<std::int64_t>(users.size());
  const std::int64_t k = settings.k, tile = std::clamp<std::int64_t>(kTileBytes / (8 * stride), 1, kTileUsers);
  MixedLists out{std::vector<std::int32_t>(n * k, -1), std::vector<std::int32_t>(n * k, -1), -1};
  std::vector<std::uint8_t> nan(n, 0);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> scores;
    std::vector<std::int32_t> interests;
    auto fill = make_fill();
    ListMaker maker(settings);
    errors.run([&] {
      scores.resize(tile * stride);
      interests.resize(tile * stride);
    });
#pragma omp for schedule(dynamic)
    for (std::int64_t first = 0; first < n; first += tile)
      errors.run([&] {
        const std::int64_t last = std::min(n, first + tile);
        fill(first, last, scores, interests);
        for (std::int64_t b = first; b < last; ++b) {
          const auto row = std::span(scores).subspan((b - first) * stride, stride);
          if (!prepare_row(row, n_items, excluded.of(users[b]))) {
            nan[b] = 1;
            continue;
          }
          maker.make(row, std::span(interests).subspan((b - first) * stride, stride),
                     weights.subspan(first_weights[b], first_weights[b + 1] - first_weights[b]),
                     std::span(out.top).subspan(b * k, k), std::span(out.interests).subspan(b * k, k));
        }
      });
  }
  errors.rethrow();
  const auto bad = std::find(nan.begin(), nan.end(), 1);
  if (bad != nan.end()) out.nan_user = bad - nan.begin();
  return out;
}

}  // namespace

MixedLists mix_with_vectors(const ScoringVectors& space,
                            std::span<const std::int32_t> users, std::span<const double> weights,
                            const Lists& excluded, const MixSettings& settings, int threads) {
  const PackedItems& items = *space.items;
  std::vector<std::int64_t> first_weights(users.size() + 1, 0);
  for (std::size_t b = 0; b < users.size(); ++b)
    first_weights[b + 1] = first_weights[b] + space.users.offsets[users[b] + 1] - space.users.offsets[users[b]];
  const auto make_fill = [&] {
    return [&, gathered = GatheredRows()](std::int64_t first, std::int64_t last, std::vector<float>& scores,
                                          std::vector<std::int32_t>& interests) mutable {
      gathered.gather(space.users, users.subspan(first, last - first), items.dim());
      score_block(items, gathered, space.scale, last - first, scores, interests);
    };
  };
  return mix(items.padded_items(), items.n_items(), users, weights, first_weights, excluded, settings, threads,
             make_fill);
}

MixedLists mix_with_scores(std::span<const float> scores, std::span<const std::int32_t> interests,
                           std::span<const std::int32_t> users, std::span<const double> weights,
                           std::span<const std::int64_t> first_weights, const Lists& excluded,
                           const MixSettings& settings, int threads) {
  if (users.empty()) return {};
  const auto n_items = static_cast<std::int64_t>(scores.size() / users.size());
  const std::int64_t stride = std::max<std::int64_t>((n_items + 15) / 16 * 16, 16);
  const auto make_fill = [&] {
    return [&](std::int64_t first, std::int64_t last, std::vector<float>& to, std::vector<std::int32_t>& matched) {
      for (std::int64_t b = first; b < last; ++b) {
        std::copy_n(scores.begin() + b * n_items, n_items, to.begin() + (b - first) * stride);
        std::copy_n(interests.begin() + b * n_items, n_items, matched.begin() + (b - first) * stride);
      }
    };
  };
  return mix(stride, n_items, users, weights, first_weights, excluded, settings, threads, make_fill);
}

}  // namespace tastespace
