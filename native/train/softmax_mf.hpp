// Cosine matrix factorization with a softmax over negatives that a batch of users shares.
//
// With unit vectors a (users) and c (items), a pool J of items and a temperature t, the loss of a user with items P is
//   |P| log sum over j in J of exp(a . c_j / t)  -  sum over i in P of a . c_i / t.
// All positives of a user share one row of logits, so that nearly all of the work is three products of matrices.
#pragma once

#include <cstdint>
#include <span>

#include "core/interrupt.hpp"

namespace tastespace {

// The positives of user u are positives[offsets[u]] ... positives[offsets[u + 1] - 1].
struct SoftmaxData {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> positives;
};

// Parameters of one side, a row per user or item; the vectors of the model are the rows divided by their lengths. Steps
// are nearly at right angles to a row, which so becomes longer: rows that have moved often turn less. That is better
// than rows kept at length 1 (NDCG@20 0.086 against 0.080 on a held-out fifth of yelp2018's training part). Adam's
// second moment is one number per row, the mean over the row's squares.
struct SoftmaxSide {
  std::span<float> rows, first;  // n x dim
  std::span<float> second;       // n
};

struct SoftmaxState {
  SoftmaxSide users, items;
  std::int64_t dim;
};

struct SoftmaxSettings {
  float temperature, learning_rate;
  std::int64_t batch_size;  // users
};

struct SoftmaxTotals {
  double loss = 0.0;  // sum over positives, before the steps
  std::int64_t n_positives = 0;
};

// One step of Adam for each batch of `users`, who are distinct: batch b has the users b * batch_size ... and as its
// pool the n_negatives items of row b of `pools`, which may repeat. Of both sides only rows of the batch move, from
// gradients at where all of them were before. `first_step` is the number of steps that went before. The same bits for
// every number of threads. After an interrupt part of the batches is left out.
SoftmaxTotals train_softmax_mf(const SoftmaxData& data, SoftmaxState& state, const SoftmaxSettings& settings,
                               std::span<const std::int32_t> users, std::span<const std::int32_t> pools,
                               std::int64_t n_negatives, std::int64_t first_step, int threads, Interrupt& interrupt);

// Fold-in: unit vectors of users, rows of `vectors`, moved towards the least loss with unit item vectors fixed, by
// n_steps steps of gradient descent on the sphere. A user's result does not depend on the other users.
void fold_in_softmax_mf(const SoftmaxData& data, std::span<const float> item_vectors, std::int64_t dim,
                        std::span<const std::int32_t> pool, float temperature, int n_steps, std::span<float> vectors,
                        int threads, Interrupt& interrupt);

}  // namespace tastespace
