#include "newcomers.hpp"

#include <algorithm>

#include "random.hpp"
#include "visit.hpp"

namespace tastespace {
namespace {

void learn_one(std::int64_t user, const TrainData& data, TrainState& state, const TrainSettings& settings,
               std::uint64_t seed, std::uint64_t epoch, Visitor& visitor, Visit& visit) {
  const std::int64_t start = data.offsets[user], n = data.offsets[user + 1] - start;
  const Permutation order(static_cast<std::uint64_t>(n), seed, epoch);
  const std::int64_t first = data.vector_offsets[user], last = data.vector_offsets[user + 1];
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t own = order(static_cast<std::uint64_t>(i));
    if (!visitor.look(user, start + static_cast<std::int64_t>(own), Stream(seed, epoch, own), visit)) continue;
    const std::span<const float> gradient = visitor.user_gradient(visit);
    for (std::int64_t x = first; x < last; ++x) {
      if (!visitor.touched(x - first)) continue;
      descend(state.users.data(), gradient.data() + (x - first) * state.dim, x, state.dim, settings.optimizer,
              state.user_optimizer);
      project(state.users.data() + x * state.dim, state.dim, settings.user_region, settings.radius);
    }
  }
}

}  // namespace

void learn_newcomers(const TrainData& data, TrainState& state, const TrainSettings& settings, std::uint64_t seed,
                     std::int64_t epochs, std::int64_t average, std::span<float> mean_users, int threads) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
#pragma omp parallel num_threads(threads)
  {
    Visitor visitor(data, state, settings);
    Visit visit;
#pragma omp for schedule(dynamic)
    for (std::int64_t user = 0; user < n_users; ++user) {
      const std::int64_t from = data.vector_offsets[user] * state.dim, to = data.vector_offsets[user + 1] * state.dim;
      for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
        learn_one(user, data, state, settings, seed, static_cast<std::uint64_t>(epoch), visitor, visit);
        const float weight = 1.0f / static_cast<float>(std::min(epoch + 1, std::max<std::int64_t>(1, average)));
        for (std::int64_t k = from; k < to; ++k) mean_users[k] += weight * (state.users[k] - mean_users[k]);
      }
    }
  }
}

}  // namespace tastespace
