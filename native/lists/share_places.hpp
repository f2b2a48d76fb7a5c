// The places of a list shared out among interests by the divisor method of Sainte-Lague (Webster).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tastespace {

// Scores as relevance: 1 for the best, 0 for the worst and everything below, linear in between.
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

// An interest that takes part: its weight (0 or more, of any scale), how many items it has, how many places it got.
struct Claim {
  double weight;
  std::int64_t n_items;
  std::int64_t n_places = 0;

  bool has_items() const { return n_places < n_items; }
  double divisor() const { return static_cast<double>(2 * n_places + 1); }
};

// True if the quotient w / (2 n + 1) of a is larger than that of b, or equal and its weight is larger. Products instead of
// quotients, because those of whole weights are exact.
inline bool larger_quotient(const Claim& a, const Claim& b) {
  const double left = a.weight * b.divisor(), right = b.weight * a.divisor();
  return left != right ? left > right : a.weight > b.weight;
}

// The interest of each place; -1 where all items are used up. Claims are changed: afterwards they hold the numbers of
// places.
//
// With diversity 1 a place goes to the interest of the largest quotient w / (2 n + 1), w its weight and n the places that
// it has; of equal quotients to the larger weight, then to the lower number. Below 1 it goes to the largest
//
//   (1 - diversity) * relevance + diversity * quotient / largest quotient
//
// of those with items left, where relevance is that of the item which the interest would put there; of equal values to
// the better item, then the larger weight, then the lower number. `next_score(x, n)` is the score of item n of
// interest x, best first; it is not called with diversity 1.
template <class NextScore>
void share_places(std::span<Claim> claims, double diversity, const Relevance& relevance, NextScore next_score,
                  std::span<std::int32_t> places) {
  const auto n_claims = static_cast<std::int32_t>(claims.size());
  const auto largest_quotient = [&] {
    std::int32_t best = -1;
    for (std::int32_t x = 0; x < n_claims; ++x)
      if (claims[x].has_items() && (best < 0 || larger_quotient(claims[x], claims[best]))) best = x;
    return best;
  };
  for (std::int32_t& place : places) {
    place = largest_quotient();
    if (place < 0) continue;
    if (diversity < 1.0) {
      const double largest = claims[place].weight / claims[place].divisor();
      double highest = -1.0;
      float best_score = 0.0f;
      for (std::int32_t x = 0; x < n_claims; ++x) {
        if (!claims[x].has_items()) continue;
        const float score = next_score(x, claims[x].n_places);
        const double share = largest > 0.0 ? claims[x].weight / claims[x].divisor() / largest : 0.0;
        const double value = (1.0 - diversity) * relevance(score) + diversity * share;
        const bool tied = value == highest && (score > best_score ||
                                               (score == best_score && claims[x].weight > claims[place].weight));
        if (value > highest || tied) {
          place = x;
          highest = value;
          best_score = score;
        }
      }
    }
    ++claims[place].n_places;
  }
}

}  // namespace tastespace
