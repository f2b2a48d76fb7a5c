#include "dpcml_fold_in.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "parallel_errors.hpp"
#include "positive_step.hpp"
#include "random.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kPositivesBetweenChecks = 16;  // for an interrupt

// Two steps: while one is computed, the item vectors of the next, whose negatives are drawn already, are fetched.
using Steps = std::array<PositiveStep, 2>;

// One epoch over the positives of one user.
void train_user(std::int64_t user, const DpcmlData& data, DpcmlState& state, std::uint64_t seed, std::uint64_t epoch,
                StepComputer& computer, Steps& steps, Interrupt& interrupt) {
  const std::int64_t start = data.offsets[user], n = data.offsets[user + 1] - start;
  const Permutation order(static_cast<std::uint64_t>(n), seed, epoch);
  std::array<std::int64_t, 2> positives{};
  const auto prepare = [&](std::int64_t i) {
    const std::uint64_t own = order(static_cast<std::uint64_t>(i));
    positives[i % 2] = start + static_cast<std::int64_t>(own);
    computer.draw(user, CounterRng(seed, epoch, own), steps[i % 2]);
    computer.prefetch_items(positives[i % 2], steps[i % 2]);
  };
  if (n > 0) prepare(0);
  for (std::int64_t i = 0; i < n; ++i) {
    if (i % kPositivesBetweenChecks == 0 && interrupt.requested()) return;
    if (i + 1 < n) prepare(i + 1);
    PositiveStep& step = steps[i % 2];
    if (computer.compute(user, positives[i % 2], step)) computer.update_user_vectors(user, step, state);
  }
}

}  // namespace

void fold_in_dpcml(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
                   std::int64_t epochs, std::int64_t average, std::span<float> mean_user_vectors, int threads,
                   Interrupt& interrupt) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<StepComputer> computer;
    Steps steps;
    errors.run([&] { computer.emplace(data, state, settings); });
#pragma omp for schedule(dynamic)
    for (std::int64_t user = 0; user < n_users; ++user)
      errors.run([&] {
        const std::int64_t from = data.vector_offsets[user] * state.dim, to = data.vector_offsets[user + 1] * state.dim;
        for (std::int64_t epoch = 0; epoch < epochs && !interrupt.requested(); ++epoch) {
          train_user(user, data, state, seed, static_cast<std::uint64_t>(epoch), *computer, steps, interrupt);
          const float weight = 1.0f / static_cast<float>(std::min(epoch + 1, std::max<std::int64_t>(1, average)));
          for (std::int64_t k = from; k < to; ++k)
            mean_user_vectors[k] += weight * (state.user_vectors[k] - mean_user_vectors[k]);
        }
      });
  }
  errors.rethrow();
}

}  // namespace tastespace
