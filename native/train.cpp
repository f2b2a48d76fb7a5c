#include "train.hpp"

#include <omp.h>

#include <algorithm>

#include "blocks.hpp"
#include "visit.hpp"

namespace tastespace {
namespace {

// One thread's bench for the items' turn.
struct ItemBench {
  std::vector<const Pull*> mine;  // the notes on this thread's items, in order
  std::vector<float> gradient;
};

constexpr std::size_t kAhead = 4;  // notes between asking for a row and using it

class BlockTrainer {
 public:
  BlockTrainer(const TrainData& data, TrainState& state, const TrainSettings& settings, std::uint64_t seed,
               std::uint64_t epoch)
      : data_(data), state_(state), settings_(settings), seed_(seed), epoch_(epoch),
        layout_(data.offsets, data.positives.size(), seed, epoch), visits_(settings.block) {}

  void lay_out(std::int64_t first, std::int64_t last) { layout_.lay_out(first, last); }
  std::int64_t n_groups() const { return layout_.n_groups(); }

  void learn_user(std::int64_t group, Visitor& visitor) {
    if (group + 1 < n_groups()) prefetch_user(layout_.slots()[layout_.start(group + 1)].user);
    for (std::int64_t s = layout_.start(group); s < layout_.start(group + 1); ++s) {
      const auto [user, positive] = layout_.slots()[s];
      Visit& visit = visits_[s];
      const Stream stream(seed_, epoch_, static_cast<std::uint64_t>(positive));
      if (!visitor.look(user, positive, stream, visit)) continue;
      const std::span<const float> gradient = visitor.user_gradient(visit);
      const std::int64_t first = data_.vector_offsets[user], last = data_.vector_offsets[user + 1];
      for (std::int64_t x = first; x < last; ++x) {
        if (!visitor.touched(x - first)) continue;
        descend(state_.users.data(), gradient.data() + (x - first) * state_.dim, x, state_.dim,
                settings_.optimizer, state_.user_optimizer);
        project(state_.users.data() + x * state_.dim, state_.dim, settings_.user_region, settings_.radius);
      }
    }
  }

  void learn_items(int thread, int threads, ItemBench& bench) {
    bench.mine.clear();
    for (std::size_t s = 0; s < layout_.slots().size(); ++s)
      for (const Pull& pull : visits_[s].pulls)
        if (owner_of_item(pull.item, threads) == thread) bench.mine.push_back(&pull);
    bench.gradient.resize(state_.dim);
    for (std::size_t p = 0; p < bench.mine.size(); ++p) {
      if (p + kAhead < bench.mine.size()) prefetch_pull(*bench.mine[p + kAhead]);
      const Pull& pull = *bench.mine[p];
      float* item = state_.items.data() + pull.item * state_.dim;
      simd::difference(bench.gradient.data(), 2.0f * pull.strength, item,
                       state_.users.data() + pull.vector * state_.dim, state_.dim);
      descend(state_.items.data(), bench.gradient.data(), pull.item, state_.dim, settings_.optimizer,
              state_.item_optimizer);
      project(item, state_.dim, settings_.item_region, settings_.radius);
    }
  }

  void add_up(TrainTotals& totals) const {  // in the order of the slots: the same sum for every thread count
    for (std::size_t s = 0; s < layout_.slots().size(); ++s) {
      const Visit& visit = visits_[s];
      totals.loss += visit.loss;
      totals.dcrs += visit.dcrs;
      totals.pulls += static_cast<std::int64_t>(visit.pulls.size());
      visit.candidates.empty() ? ++totals.skipped : ++totals.visited;
    }
  }

 private:
  void prefetch_user(std::int64_t user) const {
    const std::int64_t first = data_.vector_offsets[user] * state_.dim;
    const std::int64_t n = data_.vector_offsets[user + 1] * state_.dim - first;
    simd::prefetch(state_.users.data() + first, n);
    if (!state_.user_optimizer.first.empty()) simd::prefetch(state_.user_optimizer.first.data() + first, n);
    __builtin_prefetch(data_.positives.data() + data_.offsets[user]);
  }

  void prefetch_pull(const Pull& pull) const {
    simd::prefetch(state_.items.data() + pull.item * state_.dim, state_.dim);
    simd::prefetch(state_.users.data() + pull.vector * state_.dim, state_.dim);
    if (!state_.item_optimizer.first.empty())
      simd::prefetch(state_.item_optimizer.first.data() + pull.item * state_.dim, state_.dim);
  }

  const TrainData& data_;
  TrainState& state_;
  const TrainSettings& settings_;
  std::uint64_t seed_, epoch_;
  BlockLayout layout_;
  std::vector<Visit> visits_;
};

}  // namespace

TrainTotals train_range(const TrainData& data, TrainState& state, const TrainSettings& settings,
                        std::uint64_t seed, std::uint64_t epoch, std::int64_t first, std::int64_t last,
                        int threads) {
  BlockTrainer block(data, state, settings, seed, epoch);
  TrainTotals totals;
#pragma omp parallel num_threads(threads)
  {
    Visitor visitor(data, state, settings);
    ItemBench bench;
    const int thread = omp_get_thread_num(), present = omp_get_num_threads();
    for (std::int64_t from = first; from < last; from += settings.block) {
#pragma omp single
      block.lay_out(from, std::min(last, from + settings.block));
#pragma omp for schedule(dynamic, 8)
      for (std::int64_t group = 0; group < block.n_groups(); ++group) block.learn_user(group, visitor);
      block.learn_items(thread, present, bench);
#pragma omp barrier
#pragma omp single
      block.add_up(totals);
    }
  }
  return totals;
}

Visit probe(const TrainData& data, const TrainState& state, const TrainSettings& settings, std::uint64_t seed,
            std::uint64_t epoch, std::int64_t positive, std::span<float> user_gradient,
            std::span<float> item_gradient) {
  Visitor visitor(data, state, settings);
  Visit visit;
  const std::int64_t user = owner_of(data.offsets, positive);
  const float gamma = state.gamma.empty() ? 0.0f : state.gamma[positive];
  if (!visitor.look(user, positive, Stream(seed, epoch, static_cast<std::uint64_t>(positive)), visit)) return visit;
  if (!state.gamma.empty()) state.gamma[positive] = gamma;  // the visit moved it
  const std::span<const float> mine = visitor.user_gradient(visit);
  std::copy(mine.begin(), mine.end(), user_gradient.begin() + data.vector_offsets[user] * state.dim);
  for (const Pull& pull : visit.pulls)
    simd::add_difference(item_gradient.data() + pull.item * state.dim, 2.0f * pull.strength,
                         state.items.data() + pull.item * state.dim, state.users.data() + pull.vector * state.dim,
                         state.dim);
  return visit;
}

}  // namespace tastespace
