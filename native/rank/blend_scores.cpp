#include "rank/blend_scores.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "core/parallel_errors.hpp"
#include "rank/blend_worker.hpp"
#include "rank/row_ranking.hpp"
#include "rank/scored_rows.hpp"

namespace tastespace {
namespace {

// Rows of the tastes of a call's users: user b has the rows first[b] ... first[b + 1] - 1.
std::vector<std::int64_t> first_rows(const Blend& blend, std::span<const std::int32_t> users) {
  std::vector<std::int64_t> first(users.size() + 1, 0);
  for (std::size_t b = 0; b < users.size(); ++b) first[b + 1] = first[b] + blend.n_tastes(users[b]);
  return first;
}

// Calls use(worker, position) for all users, in parallel, when the worker has the user's rows; it is not called for users
// with a member whose scores are not finite, the first of whom is returned.
template <class Scratch, class Use>
BadScores for_users(const Blend& blend, const BlendCall& call, std::span<const std::int64_t> first, const Use& use) {
  const auto n = static_cast<std::int64_t>(call.users.size());
  const std::int64_t tile = std::clamp<std::int64_t>(blend::Worker::users_at_once(blend), 1, std::max<std::int64_t>(1, n));
  const int workers = static_cast<int>(std::clamp<std::int64_t>((n + tile - 1) / tile, 1, call.threads));
  std::vector<std::int64_t> bad(n, -1);
  ParallelErrors errors;
#pragma omp parallel num_threads(workers)
  {
    std::optional<blend::Worker> worker;
    Scratch scratch;
    errors.run([&] { worker.emplace(blend, call, first); });
#pragma omp for schedule(dynamic)
    for (std::int64_t begin = 0; begin < n; begin += tile)
      errors.run([&] {
        const std::int64_t end = std::min(n, begin + tile);
        worker->begin(begin, end);
        for (std::int64_t at = begin; at < end; ++at) {
          worker->find_rows(at);
          bad[at] = worker->bad_member(at);
          if (bad[at] < 0) use(*worker, at, scratch);
        }
      });
  }
  errors.rethrow();
  const auto found = std::find_if(bad.begin(), bad.end(), [](std::int64_t member) { return member >= 0; });
  return found == bad.end() ? BadScores{} : BadScores{found - bad.begin(), *found};
}

struct Nothing {};

}  // namespace

BlendParts blend_parts(const Blend& blend, const BlendCall& call) {
  const std::vector<std::int64_t> first = first_rows(blend, call.users);
  const std::int64_t n = blend.n_items;
  bool by_item = blend.balance.factor != 0.0f;
  for (const std::int32_t user : call.users) by_item |= !blend.disliked.of(user).empty();
  const std::int64_t width = by_item ? n : 1;
  const auto n_members = static_cast<std::int64_t>(blend.members.size());
  BlendParts out{std::vector<float>(first.back() * n), std::vector<float>(call.users.size() * width),
                 std::vector<double>(call.users.size() * n_members), {}};
  out.bad = for_users<Nothing>(blend, call, first, [&](const blend::Worker& worker, std::int64_t at, Nothing&) {
    float* to = out.values.data() + first[at] * n;
    worker.for_parts(
        at, [](std::int64_t) {},
        [&](std::int64_t k, std::int64_t x, simd::Vec part) {
          if (k < n) std::memcpy(to + x * n + k, &part, sizeof(float) * std::min<std::int64_t>(simd::kLanes, n - k));
        },
        [](std::int64_t) {});
    std::copy_n(worker.scales(at), n_members, out.scales.begin() + at * n_members);
    const blend::UserRows& rows = worker.rows();
    float* added = out.added.data() + at * width;
    if (rows.added.empty())
      std::fill_n(added, width, static_cast<float>(rows.constant));
    else
      std::copy_n(rows.added.begin(), n, added);
  });
  return out;
}

// Rows of one user, padded.
struct PaddedRows {
  AlignedVector<float> scores;
  AlignedVector<std::int32_t> strongest;
  TopBuffer buffer;

  void find(const blend::Worker& worker, std::int64_t at) {
    scores.resize(worker.stride());
    strongest.resize(worker.stride());
    worker.totals(at, scores.data(), strongest.data());
  }
};

BlendTotals blend_totals(const Blend& blend, const BlendCall& call) {
  const std::int64_t n = blend.n_items, size = static_cast<std::int64_t>(call.users.size()) * n;
  BlendTotals out{std::vector<float>(size), std::vector<std::int32_t>(size), {}};
  const auto use = [&](const blend::Worker& worker, std::int64_t at, PaddedRows& rows) {
    rows.find(worker, at);
    std::copy_n(rows.scores.begin(), n, out.scores.begin() + at * n);
    std::copy_n(rows.strongest.begin(), n, out.strongest.begin() + at * n);
  };
  out.bad = for_users<PaddedRows>(blend, call, first_rows(blend, call.users), use);
  return out;
}

BlendLists blend_lists(const Blend& blend, const BlendCall& call, const Lists& excluded, std::int64_t k,
                       std::span<const std::uint8_t> allowed) {
  const std::size_t size = call.users.size() * k;
  BlendLists out;
  out.top.assign(size, -1);
  out.scores.assign(size, std::numeric_limits<float>::quiet_NaN());
  out.interests.assign(size, -1);
  const auto n_members = static_cast<std::int64_t>(blend.members.size());
  out.scales.resize(call.users.size() * n_members);
  std::atomic<std::int64_t> n_found{0};
  FirstPosition nan_user;
  const auto use = [&](const blend::Worker& worker, std::int64_t at, PaddedRows& rows) {
    std::copy_n(worker.scales(at), n_members, out.scales.begin() + at * n_members);
    rows.find(worker, at);
    if (!prepare_row(rows.scores, blend.n_items, excluded.of(call.users[at]))) return nan_user.report(at);
    exclude_others(rows.scores, allowed);
    const auto top = std::span(out.top).subspan(at * k, k);
    top_k(rows.scores, top, rows.buffer);
    std::int64_t found = 0;
    for (; found < k && top[found] >= 0; ++found) {
      out.scores[at * k + found] = rows.scores[top[found]];
      out.interests[at * k + found] = rows.strongest[top[found]];
    }
    n_found += found;
  };
  out.bad = for_users<PaddedRows>(blend, call, first_rows(blend, call.users), use);
  out.n_found = n_found;
  out.nan_user = nan_user.get();
  return out;
}

}  // namespace tastespace
