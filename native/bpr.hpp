// Bayesian personalized ranking: epochs of stochastic steps over the positives, each against one uniform negative.
//
// The loss of (user x, item i that was taken, item j that was not) is -ln sigmoid(s), s = <x, v_i - v_j> + b_i - b_j,
// plus half the regularization times the squares of all that it touches. Visited as in train.hpp: the same bits for
// every number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "optimizer.hpp"

namespace tastespace {

struct BprSettings {
  float regularization, bias_regularization;
  OptimizerSettings optimizer;
  std::int64_t block;  // positives per block
};

// What is learned from. Positive p of user u lies in positives[offsets[u]] ... positives[offsets[u + 1] - 1], ascending.
struct BprData {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> positives;
  std::int32_t n_items;
};

// What is learned: a row of dim for every user and item, and a number for every item.
struct BprState {
  std::span<float> users, items, bias;
  std::int64_t dim;
  OptimizerState user_optimizer, item_optimizer, bias_optimizer;
};

struct BprTotals {
  double loss = 0.0;       // without the regularization
  std::int64_t right = 0;  // pairs that were in the right order when visited
  std::int64_t visited = 0;
};

// Visit the positives number first ... last - 1 of this epoch's order and learn from them.
BprTotals bpr_range(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                    std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads);

// Vectors of people who were not in training, against items that stand still, as in newcomers.hpp: each user learns
// alone, for this many epochs over the own positives, and `mean_users` receives the running mean with a window of
// `average` epochs (1: the vectors themselves).
void bpr_newcomers(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                   std::int64_t epochs, std::int64_t average, std::span<float> mean_users, int threads);

}  // namespace tastespace
