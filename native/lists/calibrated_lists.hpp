// Calibrated lists (Steck, RecSys 2018): from the pool of each user, the items whose categories come close to the user's
// own mix of categories.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Items grouped by what counts for calibration. A term is a category with a share, how much of an item it is; a set is
// the terms of an item. Items of the same set gain the same by calibration.
struct CategorySets {
  std::span<const std::int64_t> offsets;     // set s has the terms offsets[s] ... offsets[s + 1] - 1 of `terms`
  std::span<const std::int32_t> terms;       // no two of a set have the same category
  std::span<const std::int32_t> categories;  // of each term
  std::span<const double> shares;            // of each term, above 0

  std::span<const std::int32_t> of(std::int32_t set) const {
    return terms.subspan(offsets[set], offsets[set + 1] - offsets[set]);
  }
};

// The pools of a block of users: user u has the entries offsets[u] ... offsets[u + 1] - 1, best first.
struct Pools {
  std::span<const std::int64_t> offsets;
  std::span<const double> relevance;   // never rises within a pool
  std::span<const std::int32_t> sets;  // of each entry

  std::int64_t n_users() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

struct Calibration {
  double weight;     // of calibration against relevance, 0 to 1
  double smoothing;  // share of the target in the smoothed mix of a list
  std::int64_t k;    // items per list
};

// Scores as relevance, per pool: 1 for the best, 0 for the worst, linear in between, 1 for all where all are equal.
// A score above an earlier one of its pool counts as that one; infinite scores count as the largest (smallest) finite one.
std::vector<double> pool_relevance(std::span<const std::int64_t> offsets, std::span<const double> scores, int threads);

// The entries that are chosen, min(k, size of the pool) per user in their order, user by user.
//
// Each step takes the entry that makes the list best by
//
//   (1 - weight) * sum of relevance - weight * sum over g of p(g) log(p(g) / q~(g)),
//
// where p is the user's row of `target` (n_users x n_categories), q the mean of the shares of those entries of the list
// that have a category, and q~ = (1 - smoothing) q + smoothing p. Of values that are equal but for rounding the earlier
// entry goes first. Throws std::invalid_argument where relevance rises within a pool.
std::vector<std::int64_t> calibrated_lists(const Pools& pools, const CategorySets& sets, std::span<const double> target,
                                           std::int64_t n_categories, const Calibration& settings, int threads);

}  // namespace tastespace
