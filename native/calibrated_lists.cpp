#include "calibrated_lists.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tastespace {
namespace {

constexpr double kSame = 1e-12;  // values that differ by less are equal but for rounding
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kUsersAtOnce = 16;

// The greedy choice for one user after the other, with memory that is used again.
//
// Only the first entry left of each set is compared: the others of its set gain the same and are no more relevant. What
// a term adds to the fit never grows with the list, nor does the relevance of the first entry left, so that a value
// computed in an earlier step is an upper bound, and sets with a bound below the best value are not computed again.
class GreedyChoice {
 public:
  GreedyChoice(const CategorySets& sets, std::int64_t n_categories, const Calibration& settings)
      : sets_(sets),
        settings_(settings),
        held_(n_categories),
        group_of_(sets.offsets.size() - 1, -1),
        gain_(sets.shares.size()),
        gain_step_(sets.shares.size(), -1) {}

  // False where relevance rises.
  bool choose(std::span<const double> relevance, std::span<const std::int32_t> set_of, std::span<const double> target,
              std::int64_t first_entry, std::span<std::int64_t> chosen) {
    relevance_ = relevance;
    target_ = target;
    count_ = 0.0;
    std::fill(held_.begin(), held_.end(), 0.0);
    if (!group(set_of)) return false;
    for (std::int64_t& place : chosen) {
      ++step_;
      Group& best = groups_[best_group()];
      place = first_entry + best.head;
      best.head = next_[best.head];
      const std::span<const std::int32_t> terms = sets_.of(best.set);
      for (const std::int32_t t : terms) held_[sets_.categories[t]] += sets_.shares[t];
      if (!terms.empty()) count_ += 1.0;
      if (best.head < 0) best.value = -kInfinity;
    }
    return true;
  }

 private:
  struct Group {
    std::int32_t set;
    std::int32_t head;   // the first entry left, -1 without any
    double value;        // as it was in `step`
    std::int64_t step;
  };

  // The entries of a pool by their sets; false where relevance rises.
  bool group(std::span<const std::int32_t> set_of) {
    for (const Group& old : groups_) group_of_[old.set] = -1;
    groups_.clear();
    next_.resize(set_of.size());
    for (auto e = static_cast<std::int32_t>(set_of.size()) - 1; e >= 0; --e) {
      if (e > 0 && !(relevance_[e] <= relevance_[e - 1])) return false;
      std::int32_t& at = group_of_[set_of[e]];
      if (at < 0) {
        at = static_cast<std::int32_t>(groups_.size());
        groups_.push_back({set_of[e], -1, kInfinity, -1});
      }
      next_[e] = groups_[at].head;
      groups_[at].head = e;
    }
    return true;
  }

  // The group whose first entry is chosen next; some group has an entry left.
  std::size_t best_group() {
    // The largest bound first, so that most of the others are below it. Without terms a value may grow: it is no bound.
    double best = -kInfinity;
    const auto compute = [&](Group& group) {
      group.value = value(group);
      group.step = step_;
      best = std::max(best, group.value);
    };
    compute(*std::max_element(groups_.begin(), groups_.end(),
                              [](const Group& a, const Group& b) { return a.value < b.value; }));
    for (Group& group : groups_)
      if (group.head >= 0 && group.step != step_ && (group.value >= best - 2 * kSame || sets_.of(group.set).empty()))
        compute(group);
    std::size_t first = groups_.size();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (group.step == step_ && group.value >= best - kSame &&
          (first == groups_.size() || group.head < groups_[first].head))
        first = g;
    }
    return first;
  }

  // What the list would be worth with the first entry left of a group, less what is the same for all groups with terms.
  double value(const Group& group) {
    double fit = 0.0;
    const std::span<const std::int32_t> terms = sets_.of(group.set);
    if (terms.empty())
      fit = -fit_lost_by_length();
    else
      for (const std::int32_t t : terms) fit += gain(t);
    return (1.0 - settings_.weight) * relevance_[group.head] + settings_.weight * fit;
  }

  // p log(q~ with the term / q~ without), for a list that is longer by one.
  double gain(std::int32_t t) {
    if (gain_step_[t] != step_) {
      const double wanted = target_[sets_.categories[t]], rest = 1.0 - settings_.smoothing;
      const double mix = rest * held_[sets_.categories[t]] + settings_.smoothing * wanted * (count_ + 1.0);
      gain_[t] = wanted > 0.0 ? wanted * std::log1p(rest * sets_.shares[t] / mix) : 0.0;
      gain_step_[t] = step_;
    }
    return gain_[t];
  }

  // By how much the sum of p log q~ falls where the same sums are divided by a length that is larger by one.
  double fit_lost_by_length() const {
    const double rest = 1.0 - settings_.smoothing;
    double lost = 0.0;
    for (std::size_t g = 0; g < held_.size(); ++g) {
      if (!(target_[g] > 0.0) || held_[g] == 0.0) continue;
      const double smooth = settings_.smoothing * target_[g];
      lost += target_[g] * std::log((rest * held_[g] / (count_ + 1.0) + smooth) /
                                    (rest * held_[g] / std::max(count_, 1.0) + smooth));
    }
    return lost;
  }

  const CategorySets& sets_;
  const Calibration& settings_;
  std::span<const double> relevance_, target_;
  std::vector<double> held_;              // sums of the shares of the chosen, by category
  double count_ = 0.0;                    // chosen entries with a category
  std::vector<Group> groups_;             // those of the pool
  std::vector<std::int32_t> group_of_;    // of each set, -1 without any
  std::vector<std::int32_t> next_;        // the next entry of the same set, -1 at the end
  std::vector<double> gain_;              // of each term, as it was in step gain_step_
  std::vector<std::int64_t> gain_step_;
  std::int64_t step_ = 0;                 // counted on over all users
};

}  // namespace

std::vector<double> pool_relevance(std::span<const std::int64_t> offsets, std::span<const double> scores, int threads) {
  const auto n = static_cast<std::int64_t>(offsets.size()) - 1;
  std::vector<double> out(scores.size());
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t u = 0; u < n; ++u) {
    double lowest = kInfinity, top = -kInfinity, low = kInfinity;
    for (std::int64_t e = offsets[u]; e < offsets[u + 1]; ++e) {
      out[e] = lowest = std::min(lowest, scores[e]);
      if (!std::isfinite(lowest)) continue;
      top = std::max(top, lowest);
      low = std::min(low, lowest);
    }
    if (top == -kInfinity) top = 1.0, low = 0.0;  // no finite score
    for (std::int64_t e = offsets[u]; e < offsets[u + 1]; ++e)
      out[e] = top > low ? (std::clamp(out[e], low, top) - low) / (top - low) : 1.0;
  }
  return out;
}

std::vector<std::int64_t> calibrated_lists(const Pools& pools, const CategorySets& sets, std::span<const double> target,
                                           std::int64_t n_categories, const Calibration& settings, int threads) {
  const std::int64_t n = pools.n_users();
  std::vector<std::int64_t> starts(n + 1, 0);
  for (std::int64_t u = 0; u < n; ++u)
    starts[u + 1] = starts[u] + std::min(settings.k, pools.offsets[u + 1] - pools.offsets[u]);
  std::vector<std::int64_t> chosen(starts.back());
  int rises = 0;
#pragma omp parallel num_threads(threads) reduction(| : rises)
  {
    GreedyChoice greedy(sets, n_categories, settings);
#pragma omp for schedule(dynamic, kUsersAtOnce)
    for (std::int64_t u = 0; u < n; ++u) {
      const std::int64_t first = pools.offsets[u], size = pools.offsets[u + 1] - first;
      rises |= !greedy.choose(pools.relevance.subspan(first, size), pools.sets.subspan(first, size),
                              target.subspan(u * n_categories, n_categories), first,
                              std::span(chosen).subspan(starts[u], starts[u + 1] - starts[u]));
    }
  }
  if (rises) throw std::invalid_argument("relevance rises within a pool, expected the best entry first");
  return chosen;
}

}  // namespace tastespace
