// Bayesian personalized ranking (BPR): stochastic steps over the positives, each against one uniform negative.
//
// The loss of (user x, item i that was taken, item j that was not) is -ln sigmoid(s), s = <x, v_i - v_j> + b_i - b_j,
// plus half the regularization times the squares of all that it touches. Processed in blocks as in dpcml.hpp: the same
// bits for every number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "core/interrupt.hpp"
#include "train/optimizer.hpp"
#include "train/positive_index.hpp"

namespace tastespace {

struct BprSettings {
  float regularization, bias_regularization;
  OptimizerSettings optimizer;
  std::int64_t block_size;  // positives per block
};

// Training data. The positives of user u are positives[offsets[u]] ... positives[offsets[u + 1] - 1], ascending.
struct BprData {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> positives;
  std::span<const std::int64_t> visited;  // positions of the positives of an epoch, ascending; empty: all
  PositiveIndex index;                    // of the positives; may be empty
};

// What is learned: a row of dim for every user and item, and a bias for every item.
struct BprState {
  std::span<float> user_vectors, item_vectors, bias;
  std::int64_t dim;
  OptimizerState user_optimizer, item_optimizer, bias_optimizer;

  std::int32_t n_items() const { return static_cast<std::int32_t>(bias.size()); }
};

// Sums over steps.
struct BprTotals {
  double loss = 0.0;           // without the regularization
  std::int64_t n_correct = 0;  // pairs in the right order before their step
  std::int64_t n_steps = 0;

  BprTotals operator+(const BprTotals& other) const {
    return {loss + other.loss, n_correct + other.n_correct, n_steps + other.n_steps};
  }
};

// Train on the positives number first ... last - 1 of this epoch's random order. After an interrupt part of them is
// left out.
BprTotals train_bpr(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                    std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads, Interrupt& interrupt);

// Fold-in: vectors of cold-start users who come with a history, learned with the items fixed, as in dpcml_fold_in.hpp.
// Each user is trained separately, for this many epochs over the user's own positives, and `mean_user_vectors` receives
// the running mean with a window of `average` epochs (1: the vectors themselves).
void fold_in_bpr(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                 std::int64_t epochs, std::int64_t average, std::span<float> mean_user_vectors, int threads,
                 Interrupt& interrupt);

}  // namespace tastespace
