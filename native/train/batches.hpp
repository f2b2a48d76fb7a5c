// Training in batches, as the authors of DPCML publish it: one step of Adam of all vectors for each batch of positives.
//
// The loss of a batch is the sum of the losses of its positives and the mean of DCRS over its users. With negatives that
// all enter the loss (Sampler::all) each pair of a positive and one of its negatives is a member of a batch of its own,
// drawn anew. Members are in a random order of the epoch.
//
// Every vector takes part in every step: one without a gradient goes on along its mean gradient. Users are projected
// after every step, items where a batch reads them.
#pragma once

#include "train/dpcml.hpp"

namespace tastespace {

// As `train_dpcml`, on one thread. OptimizerState::steps is the number of the last step that each row has taken; all are
// equal before and after. settings.anchor must be 0, the optimizer Adam, DpcmlData::dcrs_weight
// 1 / block_size for every user.
DpcmlTotals train_in_batches(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings,
                             std::uint64_t seed, std::uint64_t epoch, std::int64_t first, std::int64_t last,
                             Interrupt& interrupt);

}  // namespace tastespace
