// Vectors of people who were not in training, learned against items that stand still.
#pragma once

#include <cstdint>
#include <span>

#include "train.hpp"

namespace tastespace {

// Each user learns alone, for this many epochs over the own positives: users in parallel, and what one learns depends
// on the own history and the seed only, not on who else is there. `mean_users` receives the running mean of the user
// vectors with a window of `average` epochs (1: the vectors themselves), not yet projected.
void learn_newcomers(const TrainData& data, TrainState& state, const TrainSettings& settings, std::uint64_t seed,
                     std::int64_t epochs, std::int64_t average, std::span<float> mean_users, int threads);

}  // namespace tastespace
