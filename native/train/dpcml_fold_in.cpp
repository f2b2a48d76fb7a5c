#include "train/dpcml_fold_in.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "core/parallel_errors.hpp"
#include "train/positive_step.hpp"
#include "core/random.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kPositivesBetweenChecks = 16;  // for an interrupt
constexpr std::size_t kTogether = 8;                  // users of a group: their vectors stay in the first-level cache

// Users with the same number of positives, who learn side by side. The order of a user's positives and the negatives
// that are proposed depend on that number alone, so that a group draws them once, and the item vectors that one user
// has read are at hand for the others. What a user learns does not depend on who else is in the group.
class Group {
 public:
  Group(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings)
      : data_(data), state_(state), computer_(data, state, settings), takers_(state.n_items(), 0) {}

  void set_users(std::span<const std::int64_t> users) {
    for (std::size_t u = 0; u < users_.size(); ++u)
      for (const std::int32_t item : taken(users_[u])) takers_[item] = 0;
    users_ = users;
    for (std::size_t u = 0; u < users_.size(); ++u)
      for (const std::int32_t item : taken(users_[u])) takers_[item] |= static_cast<std::uint8_t>(1 << u);
  }

  // One epoch over the positives of the users.
  void train(std::uint64_t seed, std::uint64_t epoch, Interrupt& interrupt) {
    const auto n = static_cast<std::int64_t>(taken(users_.front()).size());
    const Permutation order(static_cast<std::uint64_t>(n), seed, epoch);
    const bool alike = computer_.draws_alike(n);
    if (n > 0) prepare(0, seed, epoch, order(0), alike);
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % kPositivesBetweenChecks == 0 && interrupt.requested()) return;
      // While one step is computed, the item vectors of the next, whose negatives are drawn already, are fetched.
      if (i + 1 < n) prepare(i + 1, seed, epoch, order(static_cast<std::uint64_t>(i + 1)), alike);
      const Drawn& drawn = drawn_[i % 2];
      for (std::size_t u = 0; u < users_.size(); ++u) {
        const std::int64_t user = users_[u];
        if (drawn.of_all >> u & 1)
          step_.negatives = drawn.step.negatives;
        else
          computer_.draw(user, CounterRng(seed, epoch, drawn.own), step_);
        const auto positive = data_.offsets[user] + static_cast<std::int64_t>(drawn.own);
        if (computer_.compute(user, positive, step_)) computer_.update_user_vectors(user, step_, state_);
      }
    }
  }

 private:
  struct Drawn {
    std::uint64_t own = 0;     // which of a user's positives
    std::uint32_t of_all = 0;  // bits of the users whose negatives are those of `step`
    PositiveStep step;
  };

  std::span<const std::int32_t> taken(std::int64_t user) const {
    return data_.positives.subspan(data_.offsets[user], data_.offsets[user + 1] - data_.offsets[user]);
  }

  void prepare(std::int64_t i, std::uint64_t seed, std::uint64_t epoch, std::uint64_t own, bool alike) {
    Drawn& drawn = drawn_[i % 2];
    drawn.own = own;
    drawn.of_all = 0;
    drawn.step.negatives.clear();
    if (alike) {
      computer_.draw_for_all(CounterRng(seed, epoch, own), drawn.step);
      std::uint32_t takers = 0;
      for (const std::int32_t item : drawn.step.negatives) takers |= takers_[item];
      drawn.of_all = ~takers;
    }
    for (const std::int64_t user : users_)
      computer_.prefetch_items(data_.offsets[user] + static_cast<std::int64_t>(own), drawn.step);
  }

  const DpcmlData& data_;
  DpcmlState& state_;
  StepComputer computer_;
  std::vector<std::uint8_t> takers_;  // per item, bits of the users who have taken it
  std::span<const std::int64_t> users_;
  std::array<Drawn, 2> drawn_;
  PositiveStep step_;
};

// Users in groups of equally many positives, as rows and the first of each group; enough groups for all threads.
struct Groups {
  std::vector<std::int64_t> users, starts{0};

  Groups(std::span<const std::int64_t> offsets, int threads) : users(offsets.size() - 1) {
    const std::size_t most = threads == 1 ? kTogether : std::clamp<std::size_t>(users.size() / (4 * threads), 1, kTogether);
    const auto count = [offsets](std::int64_t user) { return offsets[user + 1] - offsets[user]; };
    std::iota(users.begin(), users.end(), 0);
    std::stable_sort(users.begin(), users.end(), [&](auto a, auto b) { return count(a) > count(b); });
    for (std::size_t at = 1; at <= users.size(); ++at)
      if (at == users.size() || count(users[at]) != count(users[at - 1]) || at - starts.back() == most)
        starts.push_back(static_cast<std::int64_t>(at));
  }
};

}  // namespace

void fold_in_dpcml(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
                   std::int64_t epochs, std::int64_t average, std::span<float> mean_user_vectors, int threads,
                   Interrupt& interrupt) {
  const Groups groups(data.offsets, threads);
  const auto n_groups = static_cast<std::int64_t>(groups.starts.size()) - 1;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<Group> group;
    errors.run([&] { group.emplace(data, state, settings); });
#pragma omp for schedule(dynamic)
    for (std::int64_t g = 0; g < n_groups; ++g)
      errors.run([&] {
        const auto users = std::span(groups.users).subspan(groups.starts[g], groups.starts[g + 1] - groups.starts[g]);
        group->set_users(users);
        for (std::int64_t epoch = 0; epoch < epochs && !interrupt.requested(); ++epoch) {
          group->train(seed, static_cast<std::uint64_t>(epoch), interrupt);
          const float weight = 1.0f / static_cast<float>(std::min(epoch + 1, std::max<std::int64_t>(1, average)));
          for (const std::int64_t user : users) {
            const std::int64_t from = data.vector_offsets[user] * state.dim, to = data.vector_offsets[user + 1] * state.dim;
            for (std::int64_t k = from; k < to; ++k)
              mean_user_vectors[k] += weight * (state.user_vectors[k] - mean_user_vectors[k]);
          }
        }
      });
  }
  errors.rethrow();
}

}  // namespace tastespace
