// Multi-vector collaborative metric learning (DPCML): epochs of stochastic gradient steps over the positives.
//
// Deterministic for every number of threads, without locks. Positives are processed in blocks. First the users of a
// block, in parallel (a user belongs to one thread): for each positive its loss, a step of the user's own vectors, and
// a record of the pair gradients of the items. Then the items with recorded gradients, in parallel (an item belongs to
// one shard of items, and a shard to one thread), in the order of the records.
//
// d(u, v) is the smallest squared distance between a vector of user u and item v, times distance_scale. The score of an
// item is -d(u, v): larger is better. The loss is [margin + d(u, positive) - d(u, negative)]_+.
//
// With temperature T > 0 the smallest distance is replaced by a smooth minimum over the user's vectors,
// d(u, v) = -T log(mean of exp(-d_c / T)), which lies between the smallest and the mean distance: every vector takes part
// in the loss with the share exp(-d_c / T) / sum. Which negatives are the hardest is decided by the smallest distance.
// An item then takes one step for each term of the loss, with the mean of the user's vectors by their shares.
//
// With anchor > 0 a vector of a user is a mix of what is learned and of the mean of the user's own items
// (native/train/anchors.hpp). The mean leaves out the positive of the step, and the items of a step are updated with the
// vectors with which its distances were computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/interrupt.hpp"
#include "train/negatives.hpp"
#include "train/optimizer.hpp"
#include "train/positive_index.hpp"

namespace tastespace {

// Which of the negatives drawn enter the loss: all; those nearest to the positive item; those nearest to the user; or
// those that violate the margin by more than a learned threshold gamma.
enum class Sampler { all, two_stage, hardest, differentiable };
// How gamma is updated: by projected gradient, or as a running average of the N_beta-th largest violation.
enum class GammaRule { gradient, average };
// DCRS: none, on the spread (half the mean squared distance between two different vectors of the user), or on the
// squared distance of each pair.
enum class DcrsForm { off, mean, pairs };

struct DpcmlSettings {
  Sampler sampler;
  std::int64_t n_negatives;  // drawn for each positive: U, S or J_2
  std::int64_t n_hardest;    // of those, how many enter the loss (hardest, two_stage); 0: DpcmlData::n_beta
  float margin;              // lambda
  float distance_scale;      // d = distance_scale * squared distance; 1/2 makes it 1 - cos on the sphere
  GammaRule gamma_rule;
  float gamma_rate;
  DcrsForm dcrs;
  float spread_weight;           // eta
  float min_spread, max_spread;  // delta_1, delta_2; -infinity and +infinity switch a side off
  Region user_region, item_region;
  float radius;
  OptimizerSettings optimizer;
  std::int64_t block_size;  // positives per block
  float anchor;             // share of the items' mean in a user vector, from 0 to 1
  float temperature;        // of the smooth minimum over a user's vectors; 0: the minimum
  bool first_vector_only;   // a user's other vectors take no part, as if they were not there
  bool batches;             // a step of all vectors for each block (native/train/batches.hpp)
};

// Training data. The positives of user u are positives[offsets[u]] ... positives[offsets[u + 1] - 1], ascending.
struct DpcmlData {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> positives;
  AliasTable alias;                             // weights of the items as negatives; empty: uniform
  std::span<const std::int64_t> vector_offsets;  // user u has the rows [u] ... [u + 1] - 1 of user_vectors
  std::span<const float> loss_weight;           // per user
  std::span<const float> dcrs_weight;           // per user: factor of eta in one step
  std::span<const std::int32_t> n_beta;         // per user, N_beta; empty where the sampler does not need it
  std::span<const std::int64_t> visited;        // positions of the positives of an epoch, ascending; empty: all
  PositiveIndex index;                          // of the positives; may be empty
};

// What anchored training keeps besides the vectors; empty where anchor = 0.
struct AnchorState {
  std::span<std::int32_t> assignments;  // per positive: its interest, counted within the user; negative: none yet
  std::span<float> snapshot;            // item vectors at the last refresh, rows of dim
  std::span<float> sums;                // per user vector: sum of the snapshot's vectors of its items
  std::span<std::int32_t> counts;       // per user vector: number of its items
};

// What is learned.
struct DpcmlState {
  std::span<float> user_vectors, item_vectors;  // rows of dim; with anchor > 0 user_vectors are the free vectors
  std::int64_t dim;
  OptimizerState user_optimizer, item_optimizer;
  std::span<float> gamma;  // per positive; negative: no step taken yet; empty where the sampler does not need it
  AnchorState anchors;

  std::int32_t n_items() const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(item_vectors.size()) / dim);
  }
};

// The gradient that a (user vector, item) pair contributes: the derivative of the loss with respect to their squared
// distance. Where it is positive, a step reduces their distance.
struct PairGradient {
  std::int64_t vector;
  std::int32_t item;
  float derivative;
};

// Loss of one positive and the gradients that follow from it.
struct PositiveStep {
  double loss = 0.0;  // weighted, without DCRS
  double dcrs = 0.0;  // eta * dcrs_weight * psi
  float gamma_slope = 0.0f;
  std::vector<std::int32_t> negatives;  // drawn; empty where no step is possible
  std::vector<PairGradient> pair_gradients;
  // With a smooth minimum: the gradients of the items. PairGradient::vector is a row of `mixed`, the means of the user's
  // vectors by their shares; pair_gradients are those of the user alone.
  std::vector<PairGradient> item_gradients;
  std::vector<float> mixed;
};

// Sums over steps.
struct DpcmlTotals {
  double loss = 0.0, dcrs = 0.0;
  std::int64_t n_steps = 0, n_skipped = 0, n_pair_gradients = 0;  // skipped: no step is possible
  double seconds = 0.0;         // of the call
  double serial_seconds = 0.0;  // of these, in which one thread works and the others wait

  DpcmlTotals operator+(const DpcmlTotals& other) const {
    return {loss + other.loss,
            dcrs + other.dcrs,
            n_steps + other.n_steps,
            n_skipped + other.n_skipped,
            n_pair_gradients + other.n_pair_gradients,
            seconds + other.seconds,
            serial_seconds + other.serial_seconds};
  }
};

// Train on the positives number first ... last - 1 of this epoch's random order. No step is possible for a user who
// has every item, and with anchor = 1 for a user's only item. After an interrupt part of the positives is left out.
DpcmlTotals train_dpcml(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
                        std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads, Interrupt& interrupt);

// The loss of one positive of this epoch and its gradient with respect to all vectors; nothing is changed but the
// gradients. For tests of the mathematics: it runs the same code as training.
PositiveStep dpcml_loss_and_gradient(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings,
                                     std::uint64_t seed, std::uint64_t epoch, std::int64_t positive_index,
                                     std::span<float> user_gradient, std::span<float> item_gradient);

}  // namespace tastespace
