#include "lists/calibrated_lists.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr double kSame = 1e-12;  // values that differ by less are equal but for rounding
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kUsersAtOnce = 16;

// Natural logarithm of x >= 1 as in fdlibm, off by less than one unit in the last place. Unlike std::log it has no branch
// and no call, so that a loop over it is vectorized.
inline double log_of(double x) {
  constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e00000000;  // bits of sqrt(1 / 2), rounded
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t power = (bits - kRootOfHalf) >> 52;  // x is 2^power times a number from sqrt(1 / 2) to sqrt(2)
  const double f = std::bit_cast<double>(bits - (power << 52)) - 1.0;
  const double e = static_cast<double>(static_cast<std::int32_t>(power));
  const double s = f / (2.0 + f), z = s * s, w = z * z, half = 0.5 * f * f;
  const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  return e * 6.93147180369123816490e-01 - ((half - (s * (half + even + odd) + e * 1.90821492927058770002e-10)) - f);
}

// The greedy choice for one user after the other, with memory that is used again.
//
// A group is the entries of a pool with the same set. Only the first entry left of each group is compared: the others gain
// the same and are no more relevant. What the terms of the pool add to the fit is computed once per step, for all groups.
class GreedyChoice {
 public:
  GreedyChoice(const CategorySets& sets, std::int64_t n_categories, const Calibration& settings)
      : sets_(sets),
        settings_(settings),
        held_(n_categories),
        group_of_(sets.offsets.size() - 1, -1),
        term_at_(sets.shares.size(), -1) {}

  // False where relevance rises.
  bool choose(std::span<const double> relevance, std::span<const std::int32_t> set_of, std::span<const double> target,
              std::int64_t first_entry, std::span<std::int64_t> chosen) {
    relevance_ = relevance;
    target_ = target;
    count_ = 0.0;
    std::fill(held_.begin(), held_.end(), 0.0);
    if (!group_entries(set_of)) return false;
    lay_out_terms();
    for (std::int64_t& place : chosen) {
      const std::int32_t best = best_group();
      place = first_entry + heads_[best];
      const std::span<const std::int32_t> terms = sets_.of(group_sets_[best]);
      for (const std::int32_t t : terms) held_[sets_.categories[t]] += sets_.shares[t];
      if (!terms.empty()) count_ += 1.0;
      heads_[best] = next_[heads_[best]];
      base_[best] = base(heads_[best]);
    }
    return true;
  }

 private:
  // A term of the pool in a category that the user wants.
  struct WantedTerms {
    std::vector<std::int32_t> category;
    std::vector<double> wanted, added, smooth;  // p; (1 - smoothing) times the share; smoothing times p
    std::vector<double> gain;                   // weight times what it adds to the fit in this step

    void clear() {
      category.clear();
      for (auto* values : {&wanted, &added, &smooth}) values->clear();
    }
  };

  double base(std::int32_t entry) const {
    return entry < 0 ? -kInfinity : (1.0 - settings_.weight) * relevance_[entry];
  }

  // The entries of a pool by their sets; false where relevance rises.
  bool group_entries(std::span<const std::int32_t> set_of) {
    for (const std::int32_t set : group_sets_) group_of_[set] = -1;
    group_sets_.clear();
    next_.resize(set_of.size());
    for (std::size_t e = 0; e < set_of.size(); ++e) {
      if (!(relevance_[e] <= (e > 0 ? relevance_[e - 1] : kInfinity))) return false;  // NaN is no order
      if (group_of_[set_of[e]] >= 0) continue;
      group_of_[set_of[e]] = 0;
      group_sets_.push_back(set_of[e]);
    }
    const auto n_wanted = [&](std::int32_t set) {
      std::int32_t n = 0;
      for (const std::int32_t t : sets_.of(set)) n += target_[sets_.categories[t]] > 0.0;
      return n;
    };
    // Those with the most terms first, so that the groups that have an n-th term are the first ones.
    by_length_.clear();
    for (const std::int32_t set : group_sets_) by_length_.push_back({n_wanted(set), set});
    std::sort(by_length_.begin(), by_length_.end(), std::greater<>());
    const auto n = static_cast<std::int32_t>(by_length_.size());
    without_terms_ = -1;
    for (std::int32_t g = 0; g < n; ++g) {
      group_sets_[g] = by_length_[g].second;
      group_of_[group_sets_[g]] = g;
      if (sets_.of(group_sets_[g]).empty()) without_terms_ = g;
    }
    heads_.assign(n, -1);
    for (auto e = static_cast<std::int32_t>(set_of.size()) - 1; e >= 0; --e) {
      std::int32_t& head = heads_[group_of_[set_of[e]]];
      next_[e] = head;
      head = e;
    }
    base_.resize(n);
    for (std::int32_t g = 0; g < n; ++g) base_[g] = base(heads_[g]);
    values_.resize(n);
    return true;
  }

  // The wanted terms of the groups: column n has the n-th of each group that has so many.
  void lay_out_terms() {
    terms_.clear();
    const std::int32_t n_columns = by_length_.empty() ? 0 : by_length_[0].first;
    column_ends_.assign(n_columns, 0);
    for (const auto& [length, set] : by_length_)
      for (std::int32_t c = 0; c < length; ++c) ++column_ends_[c];
    std::partial_sum(column_ends_.begin(), column_ends_.end(), column_ends_.begin());
    columns_.resize(n_columns ? column_ends_.back() : 0);
    used_terms_.clear();
    for (std::size_t g = 0; g < group_sets_.size(); ++g) {
      std::int32_t c = 0;
      for (const std::int32_t t : sets_.of(group_sets_[g])) {
        const double wanted = target_[sets_.categories[t]];
        if (!(wanted > 0.0)) continue;
        if (term_at_[t] < 0) {
          term_at_[t] = static_cast<std::int32_t>(used_terms_.size());
          used_terms_.push_back(t);
          terms_.category.push_back(sets_.categories[t]);
          terms_.wanted.push_back(settings_.weight * wanted);
          terms_.added.push_back((1.0 - settings_.smoothing) * sets_.shares[t]);
          terms_.smooth.push_back(settings_.smoothing * wanted);
        }
        columns_[(c ? column_ends_[c - 1] : 0) + static_cast<std::int64_t>(g)] = term_at_[t];
        ++c;
      }
    }
    terms_.gain.resize(used_terms_.size());
    for (const std::int32_t t : used_terms_) term_at_[t] = -1;
  }

  // The group whose first entry is chosen next; some group has an entry left.
  std::int32_t best_group() {
    compute_gains();
    const auto n = static_cast<std::int32_t>(values_.size());
    std::copy(base_.begin(), base_.end(), values_.begin());
    double* values = values_.data();
    const double* gain = terms_.gain.data();
    std::int64_t start = 0;
    for (const std::int64_t end : column_ends_) {
      const std::int32_t* column = columns_.data() + start;
#pragma omp simd
      for (std::int64_t g = 0; g < end - start; ++g) values[g] += gain[column[g]];
      start = end;
    }
    if (without_terms_ >= 0) values[without_terms_] += settings_.weight * fit_kept_without_length();
    double best = values[0];
#pragma omp simd reduction(max : best)
    for (std::int32_t g = 0; g < n; ++g) best = values[g] > best ? values[g] : best;
    std::int32_t first = -1;
    for (std::int32_t g = 0; g < n; ++g)
      if (values[g] >= best - kSame && (first < 0 || heads_[g] < heads_[first])) first = g;
    if (first < 0 || heads_[first] < 0) throw std::invalid_argument("the gain of an entry is NaN");
    return first;
  }

  // p log(q~ with the term / q~ without), for a list that is longer by one.
  void compute_gains() {
    const double rest = 1.0 - settings_.smoothing, length = count_ + 1.0;
    const double *held = held_.data(), *added = terms_.added.data(), *smooth = terms_.smooth.data(),
                 *wanted = terms_.wanted.data();
    const std::int32_t* category = terms_.category.data();
    double* gain = terms_.gain.data();
    const auto n = static_cast<std::int64_t>(terms_.gain.size());
#pragma omp simd
    for (std::int64_t t = 0; t < n; ++t)
      gain[t] = wanted[t] * log_of(1.0 + added[t] / (rest * held[category[t]] + smooth[t] * length));
  }

  // An entry without categories leaves the length that shares are divided by as it is: by how much larger the sum of
  // p log q~ is than with one more and the same sums of shares.
  double fit_kept_without_length() const {
    const double rest = 1.0 - settings_.smoothing;
    double kept = 0.0;
    for (std::size_t g = 0; g < held_.size(); ++g) {
      if (!(target_[g] > 0.0) || held_[g] == 0.0) continue;
      const double smooth = settings_.smoothing * target_[g];
      kept += target_[g] * std::log((rest * held_[g] / std::max(count_, 1.0) + smooth) /
                                    (rest * held_[g] / (count_ + 1.0) + smooth));
    }
    return kept;
  }

  const CategorySets& sets_;
  const Calibration& settings_;
  std::span<const double> relevance_, target_;
  std::vector<double> held_;  // sums of the shares of the chosen, by category
  double count_ = 0.0;        // chosen entries with a category

  std::vector<std::int32_t> group_of_;                             // of each set of the pool, -1 for the others
  std::vector<std::pair<std::int32_t, std::int32_t>> by_length_;   // number of wanted terms, set
  std::vector<std::int32_t> group_sets_;                           // the set of each group
  std::vector<std::int32_t> heads_;                                // first entry left of each group, -1 without any
  std::vector<std::int32_t> next_;                                 // next entry of the same group, -1 at the end
  std::vector<double> base_, values_;                              // of the heads: by relevance alone; in this step
  std::int32_t without_terms_ = -1;                                // the group of entries without categories, or -1

  WantedTerms terms_;
  std::vector<std::int32_t> term_at_;      // place of a term in `terms_` while they are laid out, else -1
  std::vector<std::int32_t> used_terms_;   // the terms in the order of `terms_`
  std::vector<std::int32_t> columns_;      // places in `terms_`, column by column
  std::vector<std::int64_t> column_ends_;
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
  ParallelErrors errors;
#pragma omp parallel num_threads(threads) reduction(| : rises)
  {
    std::optional<GreedyChoice> greedy;
    errors.run([&] { greedy.emplace(sets, n_categories, settings); });
#pragma omp for schedule(dynamic, kUsersAtOnce)
    for (std::int64_t u = 0; u < n; ++u)
      errors.run([&] {
        const std::int64_t first = pools.offsets[u], size = pools.offsets[u + 1] - first;
        rises |= !greedy->choose(pools.relevance.subspan(first, size), pools.sets.subspan(first, size),
                                 target.subspan(u * n_categories, n_categories), first,
                                 std::span(chosen).subspan(starts[u], starts[u + 1] - starts[u]));
      });
  }
  errors.rethrow();
  if (rises) throw std::invalid_argument("relevance rises within a pool or is NaN, expected the best entry first");
  return chosen;
}

}  // namespace tastespace
