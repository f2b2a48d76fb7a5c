#include "train/negatives.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>

#include "train/block_layout.hpp"
#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kProposals = 16;  // proposed and searched for at once

// Which of `n` items are in the list: bits. The binary searches advance side by side, so that their loads overlap, and
// without branches, half of which would be mispredicted.
std::uint32_t contained(std::span<const std::int32_t> ascending, const std::int32_t* items, std::int64_t n) {
  if (ascending.empty()) return 0;
  std::uint32_t at[kProposals] = {};
  const std::int32_t* list = ascending.data();
  for (auto length = static_cast<std::uint32_t>(ascending.size()); length > 1;) {
    const std::uint32_t half = length / 2;
    for (std::int64_t j = 0; j < n; ++j)
      at[j] += half & (0u - static_cast<std::uint32_t>(list[at[j] + half - 1] < items[j]));
    length -= half;
  }
  std::uint32_t found = 0;
  for (std::int64_t j = 0; j < n; ++j) found |= static_cast<std::uint32_t>(list[at[j]] == items[j]) << j;
  return found;
}

// The same with a filter, which leaves few items to search for.
std::uint32_t contained(std::span<const std::int32_t> ascending, const ItemFilter& filter, const std::int32_t* items,
                        std::int64_t n) {
  if (filter.empty()) return contained(ascending, items, n);
  std::uint32_t may_be = filter.may_contain(items, n), found = 0;
  if (filter.exact()) return may_be;
  for (; may_be; may_be &= may_be - 1) {
    const int j = std::countr_zero(may_be);
    found |= contained(ascending, items + j, 1) << j;
  }
  return found;
}

}  // namespace

NegativeSampler::NegativeSampler(std::int32_t n_items, AliasTable alias)
    : n_items_(n_items), alias_(alias), stamp_(static_cast<std::size_t>(n_items), 0) {}

void NegativeSampler::draw(std::span<const std::int32_t> taken, const ItemFilter& filter, std::int64_t wanted,
                          CounterRng& rng, std::vector<std::int32_t>& out) {
  out.clear();
  const std::int64_t available = n_items_ - static_cast<std::int64_t>(taken.size());
  wanted = std::min(wanted, available);
  if (wanted <= 0) return;
  if (++draw_ == 0) {  // the counter overflows once in four billion draws
    std::fill(stamp_.begin(), stamp_.end(), 0);
    draw_ = 1;
  }
  // Proposals are rejected while they are taken or repeated. That is quick while most items are free. Where
  // they are not, or where the weights leave too little to draw, the rest is chosen from a list of the other items.
  std::int64_t tries = is_crowded(static_cast<std::int64_t>(taken.size()), wanted) && alias_.empty() ? 0 : 64 + 32 * wanted;
  std::int32_t proposals[kProposals];
  std::int64_t n_drawn = 0;
  out.resize(wanted);
  while (n_drawn < wanted && tries > 0) {
    const std::int64_t n = std::min({wanted - n_drawn, tries, kProposals});
    for (std::int64_t j = 0; j < n; ++j) proposals[j] = propose(rng);
    const std::uint32_t is_taken = contained(taken, filter, proposals, n);
    for (std::int64_t j = 0; j < n; ++j) {  // without branches: which are taken or repeated cannot be predicted
      std::uint32_t& stamp = stamp_[proposals[j]];
      const bool accepted = stamp != draw_ && !(is_taken >> j & 1);
      stamp = accepted ? draw_ : stamp;
      out[n_drawn] = proposals[j];
      n_drawn += accepted;
    }
    tries -= n;
  }
  out.resize(n_drawn);
  if (n_drawn < wanted) choose_from_rest(taken, wanted, rng, out);
}

std::int32_t NegativeSampler::draw_one(std::span<const std::int32_t> taken, const ItemFilter& filter, CounterRng rng) {
  if (!filter.empty() && alias_.empty() && !is_crowded(static_cast<std::int64_t>(taken.size()), 1)) {
    CounterRng first = rng;  // the first proposal is nearly always accepted
    const std::int32_t item = propose(first);
    if (!filter.may_contain(&item, 1)) return item;
  }
  draw(taken, filter, 1, rng, one_);
  return one_.empty() ? -1 : one_[0];
}

void NegativeSampler::choose_from_rest(std::span<const std::int32_t> taken, std::int64_t wanted,
                                      CounterRng& rng, std::vector<std::int32_t>& out) {
  rest_.clear();
  std::size_t next = 0;
  for (std::int32_t item = 0; item < n_items_; ++item) {
    if (next < taken.size() && taken[next] == item) {
      ++next;
    } else if (stamp_[item] != draw_) {
      rest_.push_back(item);
    }
  }
  std::size_t first = 0;
  if (!alias_.empty()) first = choose_by_weight(wanted, rng, out);
  for (; static_cast<std::int64_t>(out.size()) < wanted; ++first) {
    const std::size_t pick = first + rng.below(static_cast<std::uint32_t>(rest_.size() - first));
    std::swap(rest_[first], rest_[pick]);
    out.push_back(rest_[first]);
  }
}

std::size_t NegativeSampler::choose_by_weight(std::int64_t wanted, CounterRng& rng, std::vector<std::int32_t>& out) {
  if (weight_.empty()) {
    weight_.assign(n_items_, 0.0);
    for (std::int32_t item = 0; item < n_items_; ++item) {
      weight_[item] += alias_.keep[item];
      weight_[alias_.other[item]] += 1.0 - alias_.keep[item];
    }
  }
  std::size_t first = 0;
  for (; static_cast<std::int64_t>(out.size()) < wanted; ++first) {
    double total = 0.0;
    for (std::size_t k = first; k < rest_.size(); ++k) total += weight_[rest_[k]];
    if (!(total > 0.0)) break;
    double left = rng.unit() * total;
    std::size_t pick = rest_.size();
    for (std::size_t k = first; k < rest_.size(); ++k) {
      if (weight_[rest_[k]] <= 0.0) continue;
      pick = k;  // rounding may leave a remainder after the last one
      left -= weight_[rest_[k]];
      if (left < 0.0) break;
    }
    std::swap(rest_[first], rest_[pick]);
    out.push_back(rest_[first]);
  }
  return first;
}

std::vector<std::int32_t> draw_negatives(std::span<const std::int64_t> offsets,
                                         std::span<const std::int32_t> positives, std::int32_t n_items,
                                         AliasTable alias, std::span<const std::int32_t> users, std::int64_t n,
                                         std::uint64_t seed, std::uint64_t epoch, std::int64_t first, int threads) {
  std::vector<std::int32_t> out(users.size() * n, -1);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<NegativeSampler> sampler;
    std::vector<std::int32_t> drawn;
    errors.run([&] { sampler.emplace(n_items, alias); });
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(users.size()); ++row)
      errors.run([&] {
        const std::int64_t from = offsets[users[row]], to = offsets[users[row] + 1];
        CounterRng rng(seed, epoch, static_cast<std::uint64_t>(first + row));
        sampler->draw(positives.subspan(from, to - from), {}, n, rng, drawn);
        std::copy(drawn.begin(), drawn.end(), out.begin() + row * n);
      });
  }
  errors.rethrow();
  return out;
}

std::vector<std::uint8_t> touched_items(std::span<const std::int64_t> offsets,
                                        std::span<const std::int32_t> positives, std::int32_t n_items,
                                        AliasTable alias, std::int64_t n_negatives, std::uint64_t seed,
                                        std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
  std::vector<std::uint8_t> touched(n_items, 0);
  const auto mark = [&](std::int32_t item) {
    std::atomic_ref<std::uint8_t>(touched[item]).store(1, std::memory_order_relaxed);
  };
  std::vector<BlockPositive> visited;
  EpochOrder(offsets, {}, static_cast<std::int64_t>(positives.size()), seed, epoch, {}).append(first, last, visited);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<NegativeSampler> sampler;
    std::vector<std::int32_t> drawn;
    errors.run([&] { sampler.emplace(n_items, alias); });
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < visited.size(); ++i)
      errors.run([&] {
        const auto [user, index] = visited[i];
        const std::int64_t from = offsets[user], to = offsets[user + 1];
        CounterRng rng(seed, epoch, static_cast<std::uint64_t>(index));
        sampler->draw(positives.subspan(from, to - from), {}, n_negatives, rng, drawn);
        mark(positives[index]);
        for (const std::int32_t item : drawn) mark(item);
      });
  }
  errors.rethrow();
  return touched;
}

}  // namespace tastespace
