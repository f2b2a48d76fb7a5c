// Negatives: items that a user has not taken, drawn without replacement.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/positive_index.hpp"
#include "core/random.hpp"

namespace tastespace {

// Draws items in proportion to weights in constant time (Walker's alias method); empty means uniform.
struct AliasTable {
  std::span<const float> keep;
  std::span<const std::int32_t> other;
  bool empty() const { return keep.empty(); }
};

// Draws negatives; holds working memory, so every thread needs its own.
class NegativeSampler {
 public:
  NegativeSampler(std::int32_t n_items, AliasTable alias);

  // Up to `wanted` distinct items outside `taken` (ascending), written to `out`; fewer only where fewer exist.
  // Uniform, or one after the other in proportion to the alias table's weights. Where nothing with a positive
  // weight is left to draw, the rest is uniform. `filter` is that of `taken`, or empty: the result is the same.
  void draw(std::span<const std::int32_t> taken, const ItemFilter& filter, std::int64_t wanted, CounterRng& rng,
            std::vector<std::int32_t>& out);

  // Whether `draw` for a user who has taken `n_taken` items gives what it gives for one who has taken none, as long as
  // none of these is among the user's.
  bool draws_alike(std::int64_t n_taken, std::int64_t wanted) const {
    return alias_.empty() && !is_crowded(n_taken, wanted);
  }

  // The same for one item; -1 where there is none. For most users nothing but a few bits is read.
  std::int32_t draw_one(std::span<const std::int32_t> taken, const ItemFilter& filter, CounterRng rng);
  // What draw_one is going to read.
  void prefetch_one(const ItemFilter& filter, CounterRng rng) const {
    if (!filter.empty()) filter.prefetch(propose(rng));
  }

 private:
  std::int32_t propose(CounterRng& rng) const {
    const auto item = static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(n_items_)));
    if (alias_.empty()) return item;
    return rng.unit() < alias_.keep[item] ? item : alias_.other[item];
  }
  // Whether too few items are left to propose any item and reject those taken.
  bool is_crowded(std::int64_t n_taken, std::int64_t wanted) const { return 2 * (n_taken + wanted) > n_items_; }
  void choose_from_rest(std::span<const std::int32_t> taken, std::int64_t wanted, CounterRng& rng,
                        std::vector<std::int32_t>& out);
  // Items of the rest in proportion to their weights, while any has one; gives how many were chosen.
  std::size_t choose_by_weight(std::int64_t wanted, CounterRng& rng, std::vector<std::int32_t>& out);

  std::int32_t n_items_;
  AliasTable alias_;
  std::vector<std::uint32_t> stamp_;  // the draw in which an item was last chosen
  std::uint32_t draw_ = 0;       // number of the current draw
  std::vector<std::int32_t> one_;   // what draw_one draws
  std::vector<std::int32_t> rest_;  // items that are neither taken nor chosen yet
  std::vector<double> weight_;  // of each item, in proportion; computed when too many proposals were rejected
};

// n distinct negatives for each of `users` (rows of the lists given), -1 where a user has fewer: for models
// trained with torch. Row r uses the random numbers of (seed, epoch, first + r). Shape users x n.
std::vector<std::int32_t> draw_negatives(std::span<const std::int64_t> offsets,
                                         std::span<const std::int32_t> positives, std::int32_t n_items,
                                         AliasTable alias, std::span<const std::int32_t> users, std::int64_t n,
                                         std::uint64_t seed, std::uint64_t epoch, std::int64_t first, int threads);

// Which items training touches in the positives number first ... last - 1 of an epoch's random order: the positives and
// their `n_negatives` negatives, which do not depend on what is learned. A byte per item, 1 where it is touched.
std::vector<std::uint8_t> touched_items(std::span<const std::int64_t> offsets,
                                        std::span<const std::int32_t> positives, std::int32_t n_items,
                                        AliasTable alias, std::int64_t n_negatives, std::uint64_t seed,
                                        std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads);

}  // namespace tastespace
