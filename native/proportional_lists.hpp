// Lists in which each interest of a user has its share of the places, by the divisor method of Sainte-Lague (Webster).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Items that may enter the lists: user u has the entries offsets[u] ... offsets[u + 1] - 1, in any order.
struct ListEntries {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> items;
  std::span<const float> scores;            // larger is better
  std::span<const std::int32_t> interests;  // numbers of the user's interests
};

// Weights of the interests: user u has the interests offsets[u] ... offsets[u + 1] - 1.
struct InterestWeights {
  std::span<const std::int64_t> offsets;
  std::span<const double> weights;  // 0 or more, of any scale
};

// Entries of each user in the order of the list, n_users x k, -1 where a user has fewer.
//
// At each place every interest that still has an item offers its best one. With diversity 1 the place goes to the
// interest of the largest quotient w / (2 n + 1), w its weight and n the places that it has; of equal quotients to the
// larger weight, then to the lower number. With diversity below 1 it goes to the largest
//
//   (1 - diversity) * relevance + diversity * quotient / largest quotient,
//
// where relevance is the score of the item offered, scaled so that the second score of the user's `range` is 0 and the
// first is 1, and limited to 0 ... 1. Among items below the range the better score decides at diversity 0.
std::vector<std::int64_t> proportional_lists(const ListEntries& entries, const InterestWeights& weights,
                                             std::span<const float> range, double diversity, std::int64_t k,
                                             int threads);

}  // namespace tastespace
