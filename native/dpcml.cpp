#include "dpcml.hpp"

#include <omp.h>

#include <algorithm>

#include "block_layout.hpp"
#include "positive_step.hpp"

namespace tastespace {
namespace {

constexpr std::size_t kPrefetchDistance = 4;  // pair gradients between the prefetch of their rows and their use

// The user vector of a pair gradient: as it is now, or, with anchor > 0, as it was in the step.
const float* vector_of(const PairGradient& pair, const PositiveStep& step, const DpcmlState& state, float anchor) {
  if (anchor == 0.0f) return state.user_vectors.data() + pair.vector * state.dim;
  return step.vectors.data() + step.row_of_vector[pair.vector - step.first_vector] * state.dim;
}

// A pair gradient and the user vector that it belongs to.
struct ItemGradient {
  const PairGradient* pair;
  const float* vector;
};

// Working memory of one thread for the items of a block.
struct ItemScratch {
  std::vector<ItemGradient> pairs;  // those of this thread's items, in order
  std::vector<float> gradient;
};

class BlockTrainer {
 public:
  BlockTrainer(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
               std::uint64_t epoch)
      : data_(data), state_(state), settings_(settings), seed_(seed), epoch_(epoch),
        layout_(data.offsets, data.positives.size(), seed, epoch, data.visited), steps_(settings.block_size) {}

  void load_block(std::int64_t first, std::int64_t last) { layout_.load_block(first, last); }
  std::int64_t n_groups() const { return layout_.n_groups(); }

  void train_user(std::int64_t group, StepComputer& computer) {
    if (group + 1 < n_groups()) prefetch_user(group + 1);
    for (std::int64_t s = layout_.start(group); s < layout_.start(group + 1); ++s) {
      const auto [user, positive_index] = layout_.positives()[s];
      const CounterRng rng(seed_, epoch_, static_cast<std::uint64_t>(positive_index));
      if (!computer.compute(user, positive_index, rng, steps_[s])) continue;
      if (settings_.anchor > 0.0f) computer.keep_vectors(steps_[s]);
      computer.update_user_vectors(steps_[s], state_);
    }
  }

  void train_items(int thread, int threads, ItemScratch& scratch) {
    scratch.pairs.clear();
    for (std::size_t s = 0; s < layout_.positives().size(); ++s)
      for (const PairGradient& pair : steps_[s].pair_gradients)
        if (thread_of_item(pair.item, threads) == thread)
          scratch.pairs.push_back({&pair, vector_of(pair, steps_[s], state_, settings_.anchor)});
    scratch.gradient.resize(state_.dim);
    for (std::size_t p = 0; p < scratch.pairs.size(); ++p) {
      if (p + kPrefetchDistance < scratch.pairs.size()) prefetch_pair(scratch.pairs[p + kPrefetchDistance]);
      const PairGradient& pair = *scratch.pairs[p].pair;
      float* item = state_.item_vectors.data() + pair.item * state_.dim;
      simd::difference(scratch.gradient.data(), 2.0f * pair.derivative, item, scratch.pairs[p].vector, state_.dim);
      optimizer_step(state_.item_vectors.data(), scratch.gradient.data(), pair.item, state_.dim, settings_.optimizer,
                     state_.item_optimizer);
      project(item, state_.dim, settings_.item_region, settings_.radius);
    }
  }

  void add_up(DpcmlTotals& totals) const {  // in the order of the block: the same sum for every thread count
    for (std::size_t s = 0; s < layout_.positives().size(); ++s) {
      const PositiveStep& step = steps_[s];
      totals.loss += step.loss;
      totals.dcrs += step.dcrs;
      totals.n_pair_gradients += static_cast<std::int64_t>(step.pair_gradients.size());
      step.negatives.empty() ? ++totals.n_skipped : ++totals.n_steps;
    }
  }

 private:
  void prefetch_user(std::int64_t group) const {
    const std::int64_t user = layout_.positives()[layout_.start(group)].user;
    const std::int64_t first = data_.vector_offsets[user] * state_.dim;
    const std::int64_t n = data_.vector_offsets[user + 1] * state_.dim - first;
    simd::prefetch(state_.user_vectors.data() + first, n);
    if (!state_.user_optimizer.first.empty()) simd::prefetch(state_.user_optimizer.first.data() + first, n);
    if (settings_.anchor > 0.0f) {
      simd::prefetch(state_.anchors.sums.data() + first, n);
      __builtin_prefetch(state_.anchors.counts.data() + data_.vector_offsets[user]);
      for (std::int64_t s = layout_.start(group); s < layout_.start(group + 1); ++s)
        __builtin_prefetch(state_.anchors.assignments.data() + layout_.positives()[s].positive_index);
    }
    __builtin_prefetch(data_.positives.data() + data_.offsets[user]);
  }

  void prefetch_pair(const ItemGradient& next) const {
    const std::int64_t item = next.pair->item * state_.dim;
    simd::prefetch(state_.item_vectors.data() + item, state_.dim);
    simd::prefetch(next.vector, state_.dim);
    if (!state_.item_optimizer.first.empty()) simd::prefetch(state_.item_optimizer.first.data() + item, state_.dim);
  }

  const DpcmlData& data_;
  DpcmlState& state_;
  const DpcmlSettings& settings_;
  std::uint64_t seed_, epoch_;
  BlockLayout layout_;
  std::vector<PositiveStep> steps_;  // of the block's positives
};

}  // namespace

DpcmlTotals train_dpcml(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
                        std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
  BlockTrainer block(data, state, settings, seed, epoch);
  DpcmlTotals totals;
#pragma omp parallel num_threads(threads)
  {
    StepComputer computer(data, state, settings);
    ItemScratch scratch;
    const int thread = omp_get_thread_num(), n_threads = omp_get_num_threads();
    for (std::int64_t from = first; from < last; from += settings.block_size) {
#pragma omp single
      block.load_block(from, std::min(last, from + settings.block_size));
#pragma omp for schedule(dynamic, 8)
      for (std::int64_t group = 0; group < block.n_groups(); ++group) block.train_user(group, computer);
      block.train_items(thread, n_threads, scratch);
#pragma omp barrier
#pragma omp single
      block.add_up(totals);
    }
  }
  return totals;
}

PositiveStep dpcml_loss_and_gradient(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings,
                                     std::uint64_t seed, std::uint64_t epoch, std::int64_t positive_index,
                                     std::span<float> user_gradient, std::span<float> item_gradient) {
  StepComputer computer(data, state, settings);
  PositiveStep step;
  const std::int64_t user = row_of_position(data.offsets, positive_index);
  const float gamma = state.gamma.empty() ? 0.0f : state.gamma[positive_index];
  const CounterRng rng(seed, epoch, static_cast<std::uint64_t>(positive_index));
  if (!computer.compute(user, positive_index, rng, step)) return step;
  if (!state.gamma.empty()) state.gamma[positive_index] = gamma;  // computing the step updated it
  if (settings.anchor > 0.0f) computer.keep_vectors(step);
  const std::span<const float> own = computer.user_gradient(step);
  std::copy(own.begin(), own.end(), user_gradient.begin() + data.vector_offsets[user] * state.dim);
  for (const PairGradient& pair : step.pair_gradients)
    simd::add_difference(item_gradient.data() + pair.item * state.dim, 2.0f * pair.derivative,
                         state.item_vectors.data() + pair.item * state.dim,
                         vector_of(pair, step, state, settings.anchor), state.dim);
  return step;
}

}  // namespace tastespace
