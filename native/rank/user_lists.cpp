#include "rank/user_lists.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "rank/scored_rows.hpp"

namespace tastespace {
namespace {

struct Entry {
  float score;
  std::int32_t item, interest;
};

bool before(const Entry& a, const Entry& b) { return a.score != b.score ? a.score > b.score : a.item < b.item; }

struct Scratch {
  TopBuffer buffer;
  std::vector<float> scores;
  std::vector<Entry> entries;
};

}  // namespace

UserLists list_with_vectors(const ScoringVectors& space, const ExactItems& exact,
                            std::span<const std::int32_t> users, const Lists& excluded, std::int64_t k, int threads,
                            std::span<const std::uint8_t> allowed) {
  const PackedItems& items = *space.items;
  const UserVectors& model = space.users;
  const std::size_t size = users.size() * k;
  UserLists out{std::vector<std::int32_t>(size), std::vector<float>(size), std::vector<std::int32_t>(size)};
  std::atomic<std::int64_t> n_found{0};
  FirstPosition nan_user;
  const auto use = [&](std::int64_t b, std::span<float> row, Scratch& scratch) {
    const std::int32_t user = users[b];
    if (!prepare_row(row, items.n_items(), excluded.of(user))) return nan_user.report(b);
    exclude_others(row, allowed);
    const auto top = std::span(out.top).subspan(b * k, k);
    top_k(row, top, scratch.buffer);
    const std::int64_t from = model.offsets[user], n_vectors = model.offsets[user + 1] - from;
    const float* vectors = model.vectors.data() + from * items.dim();
    auto& entries = scratch.entries;
    entries.clear();
    for (const std::int32_t found : top) {
      if (found < 0) break;
      const std::int32_t item = exact.rows.empty() ? found : exact.rows[found];
      const PairScore best = pair_score(vectors, n_vectors, exact.vectors.data(), items.dim(), exact.comparison, item,
                                        scratch.scores);
      if (best.score != best.score) return nan_user.report(b);
      entries.push_back({best.score, item, best.interest});
    }
    // Rounding moves neighbors only, so that hardly anything is to be done.
    if (!std::is_sorted(entries.begin(), entries.end(), before)) std::sort(entries.begin(), entries.end(), before);
    n_found += static_cast<std::int64_t>(entries.size());
    entries.resize(k, {std::numeric_limits<float>::quiet_NaN(), -1, -1});
    for (std::int64_t i = 0; i < k; ++i) {
      out.top[b * k + i] = entries[i].item;
      out.scores[b * k + i] = entries[i].score;
      out.interests[b * k + i] = entries[i].interest;
    }
  };
  for_scored_rows<Scratch>(space, users, threads, use);
  out.n_found = n_found;
  out.nan_user = nan_user.get();
  return out;
}

}  // namespace tastespace
