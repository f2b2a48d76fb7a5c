// Fold-in for DPCML: vectors of cold-start users who come with a history, learned with the items fixed.
#pragma once

#include <cstdint>
#include <span>

#include "train/dpcml.hpp"

namespace tastespace {

// Each user is trained separately, for this many epochs over the user's own positives. Users run in parallel, and a
// user's vectors depend on the user's history and the seed only, not on the other users. `mean_user_vectors` receives
// the running mean of the vectors with a window of `average` epochs (1: the vectors themselves), not yet projected. After an
// interrupt it is incomplete.
void fold_in_dpcml(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
                   std::int64_t epochs, std::int64_t average, std::span<float> mean_user_vectors, int threads,
                   Interrupt& interrupt);

}  // namespace tastespace
