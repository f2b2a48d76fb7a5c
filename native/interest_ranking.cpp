#include "interest_ranking.hpp"

#include <algorithm>
#include <limits>

namespace tastespace {
namespace {

constexpr std::int64_t kTileBytes = 1 << 20;  // of scores and interests: they should stay in the second-level cache
constexpr std::int64_t kTileUsers = 16;

// Memory of one thread for the lists of one user after the other.
struct Workspace {
  std::vector<float> one_interest;
  std::vector<std::int32_t> deepest;
  TopBuffer buffer;
};

// The lists of one user from a prepared row of scores; `top` has n_interests rows of k.
void split_row(std::span<const float> scores, std::span<const std::int32_t> interests, std::int64_t n_interests,
               std::int64_t k, std::span<std::int32_t> top, Workspace& work) {
  if (n_interests == 1) return top_k(scores, top, work.buffer);
  const std::size_t n = scores.size();
  work.one_interest.resize(n);
  for (std::int64_t x = 0; x < n_interests; ++x) {
    const auto number = static_cast<std::int32_t>(x);
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i)
      work.one_interest[i] = interests[i] == number ? scores[i] : -std::numeric_limits<float>::infinity();
    top_k(work.one_interest, top.subspan(x * k, k), work.buffer);
  }
}

void fill_range(std::span<const float> scores, std::int64_t depth, std::span<float> range, Workspace& work) {
  work.deepest.resize(depth);
  top_k(scores, work.deepest, work.buffer);
  const auto found = std::find(work.deepest.begin(), work.deepest.end(), -1) - work.deepest.begin();
  if (found == 0) return;
  range[0] = scores[work.deepest[0]];
  range[1] = scores[work.deepest[found - 1]];
}

InterestLists interest_lists(const PackedItems& items, const UserVectors& model, float scale,
                             std::span<const float> given, std::span<const std::int32_t> users,
                             const Lists& excluded, std::int64_t k, std::int64_t depth, int threads) {
  const auto n = static_cast<std::int64_t>(users.size());
  const std::int64_t stride = items.padded_items(), n_items = items.n_items();
  const std::int64_t tile = std::clamp<std::int64_t>(kTileBytes / (8 * stride), 1, kTileUsers);
  std::vector<std::int64_t> first_row(n + 1, 0);
  for (std::int64_t b = 0; b < n; ++b)
    first_row[b + 1] = first_row[b] + model.offsets[users[b] + 1] - model.offsets[users[b]];
  InterestLists out{std::vector<std::int32_t>(first_row[n] * k), std::vector<float>(2 * n, 0.0f), -1};
  std::vector<std::uint8_t> nan(n, 0);
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> scores(tile * stride);
    std::vector<std::int32_t> interests(tile * stride);
    GatheredRows gathered;
    Workspace work;
#pragma omp for schedule(dynamic)
    for (std::int64_t first = 0; first < n; first += tile) {
      const std::int64_t last = std::min(n, first + tile);
      gathered.gather(model, users.subspan(first, last - first), items.dim());
      score_block(items, gathered, scale, last - first, scores, interests);
      for (std::int64_t b = first; b < last; ++b) {
        const auto row = std::span(scores).subspan((b - first) * stride, stride);
        if (!given.empty()) std::copy_n(given.begin() + b * n_items, n_items, row.begin());
        if (!prepare_row(row, n_items, excluded.of(users[b]))) {
          nan[b] = 1;
          continue;
        }
        const std::int64_t n_interests = first_row[b + 1] - first_row[b];
        split_row(row, std::span(interests).subspan((b - first) * stride, stride), n_interests, k,
                  std::span(out.top).subspan(first_row[b] * k, n_interests * k), work);
        if (depth > 0) fill_range(row, depth, std::span(out.range).subspan(2 * b, 2), work);
      }
    }
  }
  const auto bad = std::find(nan.begin(), nan.end(), 1);
  if (bad != nan.end()) out.nan_user = bad - nan.begin();
  return out;
}

}  // namespace

InterestLists interest_lists_with_vectors(const PackedItems& items, const UserVectors& model, float scale,
                                          std::span<const std::int32_t> users, const Lists& excluded, std::int64_t k,
                                          std::int64_t depth, int threads) {
  return interest_lists(items, model, scale, {}, users, excluded, k, depth, threads);
}

InterestLists interest_lists_with_scores(const PackedItems& items, const UserVectors& model, float scale,
                                         std::span<const float> scores, std::span<const std::int32_t> users,
                                         const Lists& excluded, std::int64_t k, std::int64_t depth, int threads) {
  return interest_lists(items, model, scale, scores, users, excluded, k, depth, threads);
}

}  // namespace tastespace
