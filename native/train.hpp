// Multi-vector collaborative metric learning (DPCML): epochs of stochastic steps over the positives.
//
// Deterministic for every number of threads, without locks. Positives are visited in blocks. First the users of
// a block, in parallel (a user belongs to one thread): each positive's loss, a step of the user's own vectors, and
// a note of which vector pulls or pushes which item how hard. Then the items that were noted, in parallel (an item
// belongs to one thread), in the order of the notes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "negatives.hpp"
#include "optimizer.hpp"

namespace tastespace {

enum class Sampler : int { all = 0, two_stage = 1, hardest = 2, differentiable = 3 };
enum class GammaRule : int { gradient = 0, average = 1 };
enum class DcrsForm : int { off = 0, mean = 1, pairs = 2 };

struct TrainSettings {
  Sampler sampler;
  std::int64_t n_candidates;  // drawn for each positive: U, S or J_2
  std::int64_t n_used;        // of those, how many enter the loss (hardest, two_stage); 0: N_beta of the user
  float margin;               // lambda
  float distance_scale;       // s = distance_scale * squared distance; 1/2 makes it 1 - cos on the sphere
  GammaRule gamma_rule;
  float gamma_rate;
  DcrsForm dcrs;
  float dcrs_weight;  // eta
  float dcrs_low, dcrs_high;  // delta_1, delta_2; -infinity and +infinity switch a side off
  Region user_region, item_region;
  float radius;
  OptimizerSettings optimizer;
  std::int64_t block;  // positives per block
};

// What is learned from. Positive p of user u lies in positives[offsets[u]] ... positives[offsets[u + 1] - 1].
struct TrainData {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> positives;
  std::int32_t n_items;
  AliasTable alias;
  std::span<const std::int64_t> vector_offsets;
  std::span<const float> loss_weight;       // per user
  std::span<const float> dcrs_share;        // per user: how much of eta one visit carries
  std::span<const std::int32_t> n_hardest;  // per user, N_beta; empty where the sampler does not need it
};

// What is learned.
struct TrainState {
  std::span<float> users, items;  // rows of dim
  std::int64_t dim;
  OptimizerState user_optimizer, item_optimizer;
  std::span<float> gamma;  // per positive; negative: not visited yet
};

// A vector of a user that pulls an item (strength > 0) or pushes it: the derivative of the loss with respect to
// their squared distance.
struct Pull {
  std::int64_t vector;
  std::int32_t item;
  float strength;
};

// What one visit of a positive found.
struct Visit {
  double loss = 0.0;  // weighted, without DCRS
  double dcrs = 0.0;  // eta * share * psi
  float gamma_slope = 0.0f;
  std::vector<std::int32_t> candidates;
  std::vector<Pull> pulls;
};

struct TrainTotals {
  double loss = 0.0, dcrs = 0.0;
  std::int64_t visited = 0, skipped = 0, pulls = 0;
};

// Visit the positives number first ... last - 1 of this epoch's order and learn from them.
TrainTotals train_range(const TrainData& data, TrainState& state, const TrainSettings& settings,
                        std::uint64_t seed, std::uint64_t epoch, std::int64_t first, std::int64_t last,
                        int threads);

// The loss and its gradient with respect to all vectors at the present state, for one positive of this epoch;
// nothing is learned. For checks of the mathematics.
Visit probe(const TrainData& data, const TrainState& state, const TrainSettings& settings, std::uint64_t seed,
            std::uint64_t epoch, std::int64_t positive, std::span<float> user_gradient,
            std::span<float> item_gradient);

}  // namespace tastespace
