#include "lists/taste_groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/parallel_errors.hpp"
#include "core/simd.hpp"

namespace tastespace {
namespace {

constexpr int kRounds = 6;       // of k-means, before and after groups are merged
constexpr std::int64_t kFewest = 2;  // past items of a group, unless it is the only one

// Groups the past items of one user after the other; belongs to one thread.
class Grouper {
 public:
  Grouper(std::span<const float> vectors, std::int64_t dim, const TasteSettings& settings)
      : vectors_(vectors), dim_(dim), settings_(settings) {}

  void group(std::span<const std::int32_t> past, std::span<std::int32_t> groups) {
    std::fill(groups.begin(), groups.end(), 0);
    past_ = past;
    const auto n = static_cast<std::int64_t>(past.size());
    const std::int64_t wanted = std::min(settings_.most, n / settings_.items_per_taste);
    if (wanted < 2) return;
    seed(std::min(n, 2 * wanted + 2), groups);
    improve(groups);
    merge(wanted, -1.0, 0, groups);
    improve(groups);
    merge(wanted, settings_.least_gain * static_cast<double>(n), kFewest, groups);
    number(groups);
  }

 private:
  const float* vector(std::int64_t at) const { return vectors_.data() + past_[at] * dim_; }
  float* sum(std::int64_t group) { return sums_.data() + group * dim_; }
  double length(std::int64_t group) { return std::sqrt(std::max(0.0f, simd::dot(sum(group), sum(group), dim_))); }

  // Centers at an item near the mean, then always at the item farthest from all centers so far.
  void seed(std::int64_t n_groups, std::span<std::int32_t> groups) {
    const auto n = static_cast<std::int64_t>(past_.size());
    n_groups_ = n_groups;
    sums_.assign(n_groups * dim_, 0.0f);
    sum_up(groups, 1);
    mean_.assign(sums_.begin(), sums_.begin() + dim_);
    std::int64_t next = 0;
    float best = -std::numeric_limits<float>::infinity();
    for (std::int64_t at = 0; at < n; ++at) {
      const float closeness = simd::dot(mean_.data(), vector(at), dim_);
      if (closeness > best) best = closeness, next = at;
    }
    nearest_.assign(n, -std::numeric_limits<float>::infinity());
    for (std::int64_t group = 0; group < n_groups; ++group) {
      std::copy_n(vector(next), dim_, sum(group));
      std::int64_t farthest = 0;
      for (std::int64_t at = 0; at < n; ++at) {
        const float closeness = simd::dot(sum(group), vector(at), dim_);
        if (closeness > nearest_[at]) nearest_[at] = closeness, groups[at] = static_cast<std::int32_t>(group);
        if (nearest_[at] < nearest_[farthest]) farthest = at;
      }
      next = farthest;
    }
  }

  void sum_up(std::span<const std::int32_t> groups, std::int64_t n_groups) {
    std::fill(sums_.begin(), sums_.begin() + n_groups * dim_, 0.0f);
    counts_.assign(n_groups, 0);
    for (std::size_t at = 0; at < past_.size(); ++at) {
      ++counts_[groups[at]];
      float* to = sum(groups[at]);
      const float* from = vector(static_cast<std::int64_t>(at));
      for (std::int64_t d = 0; d < dim_; ++d) to[d] += from[d];
    }
  }

  // Rounds of k-means: each item to the group whose sum has the nearest direction.
  void improve(std::span<std::int32_t> groups) {
    for (int round = 0; round < kRounds; ++round) {
      sum_up(groups, n_groups_);
      lengths_.resize(n_groups_);
      for (std::int64_t group = 0; group < n_groups_; ++group) lengths_[group] = length(group);
      bool changed = false;
      for (std::size_t at = 0; at < past_.size(); ++at) {
        double best = -std::numeric_limits<double>::infinity();
        std::int32_t to = groups[at];
        for (std::int32_t group = 0; group < n_groups_; ++group) {
          if (counts_[group] == 0) continue;
          const double closeness =
              simd::dot(sum(group), vector(static_cast<std::int64_t>(at)), dim_) / std::max(lengths_[group], 1e-12);
          if (closeness > best) best = closeness, to = group;
        }
        changed = changed || to != groups[at];
        groups[at] = to;
      }
      if (!changed) break;
    }
    sum_up(groups, n_groups_);
  }

  // Merge pairs until at most `most` groups are left, all of `fewest` items, and every pair would lose `least`.
  void merge(std::int64_t most, double least, std::int64_t fewest, std::span<std::int32_t> groups) {
    std::vector<std::int32_t> left;
    for (std::int32_t group = 0; group < n_groups_; ++group)
      if (counts_[group] > 0) left.push_back(group);
    into_.resize(n_groups_);
    std::iota(into_.begin(), into_.end(), 0);
    both_.resize(dim_);
    while (left.size() > 1) {
      const bool has_small = std::any_of(left.begin(), left.end(), [&](auto group) { return counts_[group] < fewest; });
      double lowest = std::numeric_limits<double>::infinity();
      std::size_t first = 0, second = 1;
      for (std::size_t i = 0; i < left.size(); ++i)
        for (std::size_t j = i + 1; j < left.size(); ++j) {
          if (has_small && counts_[left[i]] >= fewest && counts_[left[j]] >= fewest) continue;
          const float *a = sum(left[i]), *b = sum(left[j]);
          for (std::int64_t d = 0; d < dim_; ++d) both_[d] = a[d] + b[d];
          const double together = std::sqrt(std::max(0.0f, simd::dot(both_.data(), both_.data(), dim_)));
          const double loss = length(left[i]) + length(left[j]) - together;
          if (loss < lowest) lowest = loss, first = i, second = j;
        }
      if (!has_small && static_cast<std::int64_t>(left.size()) <= most && lowest >= least) break;
      float* to = sum(left[first]);
      const float* from = sum(left[second]);
      for (std::int64_t d = 0; d < dim_; ++d) to[d] += from[d];
      counts_[left[first]] += counts_[left[second]];
      for (auto& target : into_)
        if (target == left[second]) target = left[first];
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(second));
    }
    for (auto& group : groups) group = into_[group];
    sum_up(groups, n_groups_);
  }

  // The largest group first; of equal ones that of the first item.
  void number(std::span<std::int32_t> groups) {
    std::vector<std::int32_t> order;
    for (const auto group : groups)
      if (std::find(order.begin(), order.end(), group) == order.end()) order.push_back(group);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return counts_[a] > counts_[b]; });
    for (std::size_t place = 0; place < order.size(); ++place) into_[order[place]] = static_cast<std::int32_t>(place);
    for (auto& group : groups) group = into_[group];
  }

  std::span<const float> vectors_;
  std::int64_t dim_;
  TasteSettings settings_;
  std::span<const std::int32_t> past_;
  std::int64_t n_groups_ = 0;
  std::vector<float> sums_, mean_, nearest_, both_;
  std::vector<double> lengths_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int32_t> into_;
};

}  // namespace

std::vector<std::int32_t> taste_groups(std::span<const float> vectors, std::int64_t dim,
                                       std::span<const std::int64_t> offsets, std::span<const std::int32_t> past,
                                       const TasteSettings& settings, int threads) {
  std::vector<std::int32_t> groups(past.size());
  const auto n_users = static_cast<std::int64_t>(offsets.size()) - 1;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    Grouper grouper(vectors, dim, settings);
#pragma omp for schedule(dynamic, 64)
    for (std::int64_t user = 0; user < n_users; ++user)
      errors.run([&] {
        const auto first = static_cast<std::size_t>(offsets[user]);
        const auto count = static_cast<std::size_t>(offsets[user + 1]) - first;
        grouper.group(past.subspan(first, count), std::span(groups).subspan(first, count));
      });
  }
  errors.rethrow();
  return groups;
}

}  // namespace tastespace
