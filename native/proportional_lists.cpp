#include "proportional_lists.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tastespace {
namespace {

// What is left of one interest, best first.
struct Queue {
  const std::int64_t* next;
  const std::int64_t* end;
  double weight;
  std::int64_t n_places;

  bool empty() const { return next == end; }
};

// Whether the quotient w / (2 n + 1) of a is larger than that of b; products, because whole weights stay exact.
bool larger_quotient(const Queue& a, const Queue& b) {
  const double left = a.weight * static_cast<double>(2 * b.n_places + 1);
  const double right = b.weight * static_cast<double>(2 * a.n_places + 1);
  return left != right ? left > right : a.weight > b.weight;
}

// Scores as relevance from 0 to 1.
class Relevance {
 public:
  Relevance(float best, float worst) : best_(finite(best)), worst_(finite(worst)) {}

  double operator()(float score) const {
    const double value = finite(score);
    if (!(best_ > worst_)) return value >= best_ ? 1.0 : 0.0;
    return std::clamp((value - worst_) / (best_ - worst_), 0.0, 1.0);
  }

 private:
  static double finite(float score) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    return std::clamp<double>(score, -kLargest, kLargest);
  }
  double best_, worst_;
};

class ListMaker {
 public:
  ListMaker(const ListEntries& entries, double diversity) : entries_(entries), diversity_(diversity) {}

  void make(std::int64_t user, std::span<const double> weights, const Relevance& relevance,
            std::span<std::int64_t> out) {
    fill_queues(user, weights);
    for (std::int64_t& place : out) {
      Queue* const chosen = choose(relevance);
      place = chosen == nullptr ? -1 : *chosen->next++;
      if (chosen != nullptr) ++chosen->n_places;
    }
  }

 private:
  void fill_queues(std::int64_t user, std::span<const double> weights) {
    const std::int64_t first = entries_.offsets[user], n = entries_.offsets[user + 1] - first;
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), first);
    std::sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
      if (entries_.interests[a] != entries_.interests[b]) return entries_.interests[a] < entries_.interests[b];
      if (entries_.scores[a] != entries_.scores[b]) return entries_.scores[a] > entries_.scores[b];
      return entries_.items[a] < entries_.items[b];
    });
    queues_.clear();
    const std::int64_t* next = order_.data();
    const std::int64_t* const end = next + n;
    for (std::size_t x = 0; x < weights.size(); ++x) {
      const std::int64_t* const from = next;
      while (next != end && entries_.interests[*next] == static_cast<std::int32_t>(x)) ++next;
      queues_.push_back({from, next, weights[x], 0});
    }
  }

  Queue* choose(const Relevance& relevance) {
    Queue* best = nullptr;
    for (Queue& one : queues_)
      if (!one.empty() && (best == nullptr || larger_quotient(one, *best))) best = &one;
    if (best == nullptr || diversity_ >= 1.0) return best;
    const double largest = best->weight / static_cast<double>(2 * best->n_places + 1);
    Queue* chosen = nullptr;
    double highest = 0.0;
    for (Queue& one : queues_) {
      if (one.empty()) continue;
      const double quotient = one.weight / static_cast<double>(2 * one.n_places + 1);
      const double share = largest > 0.0 ? quotient / largest : 0.0;
      const double value = (1.0 - diversity_) * relevance(entries_.scores[*one.next]) + diversity_ * share;
      if (chosen == nullptr || value > highest || (value == highest && before(one, *chosen))) {
        chosen = &one;
        highest = value;
      }
    }
    return chosen;
  }

  // Of equal values the better item, then the larger weight.
  bool before(const Queue& a, const Queue& b) const {
    const float left = entries_.scores[*a.next], right = entries_.scores[*b.next];
    if (left != right) return left > right;
    return a.weight > b.weight;
  }

  const ListEntries& entries_;
  double diversity_;
  std::vector<std::int64_t> order_;
  std::vector<Queue> queues_;
};

}  // namespace

std::vector<std::int64_t> proportional_lists(const ListEntries& entries, const InterestWeights& weights,
                                             std::span<const float> range, double diversity, std::int64_t k,
                                             int threads) {
  const auto n = static_cast<std::int64_t>(entries.offsets.size()) - 1;
  std::vector<std::int64_t> out(n * k);
#pragma omp parallel num_threads(threads)
  {
    ListMaker maker(entries, diversity);
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t u = 0; u < n; ++u) {
      const auto own = weights.weights.subspan(weights.offsets[u], weights.offsets[u + 1] - weights.offsets[u]);
      maker.make(u, own, Relevance(range[2 * u], range[2 * u + 1]), std::span(out).subspan(u * k, k));
    }
  }
  return out;
}

}  // namespace tastespace
