#include "train/dpcml.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "train/block_layout.hpp"
#include "core/parallel_errors.hpp"
#include "train/batches.hpp"
#include "train/positive_step.hpp"

namespace tastespace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kUsersAhead = 4;               // positives between the prefetch of their users' lists and their use
constexpr std::int64_t kItemsPrefetched = 256;        // of a user's list
constexpr std::size_t kPrefetchDistance = 6;          // pair gradients between the prefetch of their rows and their use
constexpr std::int64_t kPositivesPrepared = 1 << 15;  // whose blocks are laid out at once
constexpr int kShardsPerThread = 8;                   // small parts, so that a thread that is held up holds up little

// What the steps of one chunk of a block give.
struct ChunkResult {
  std::vector<PairGradient> pairs;         // by shard of the item; in the order of the steps within a shard
  std::vector<std::int32_t> shard_starts;  // the pairs of shard i are shard_starts[i] ... shard_starts[i + 1] - 1
  // With anchor > 0 or a smooth minimum: the vectors of the pairs as they were in their steps. PairGradient::vector is a
  // row here then.
  std::vector<float> vectors;
};

// A pair gradient of an item, and the user vector that it belongs to.
struct ItemGradient {
  const float* vector;
  std::int32_t item;
  float derivative;
};

// Working memory of one thread.
struct Scratch {
  Scratch(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings)
      : computer(data, state, settings) {}
  StepComputer computer;
  std::vector<PositiveStep> steps;  // of the chunk
  std::vector<PairGradient> pairs;  // of the chunk, in order
  std::vector<ItemGradient> item_gradients;                 // of the shard, in order
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;  // with anchor > 0: user vector, and where it is kept
};

class BlockTrainer {
 public:
  BlockTrainer(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
               std::uint64_t epoch, int n_shards)
      : data_(data), state_(state), settings_(settings), seed_(seed), epoch_(epoch), n_shards_(n_shards) {}

  // Room for the results of this many chunks. From one thread.
  void reserve(std::int64_t n_chunks) {
    if (static_cast<std::int64_t>(results_.size()) < n_chunks) results_.resize(n_chunks);
  }

  // The users of a chunk.
  DpcmlTotals train_users(const BlockLayout& layout, std::int64_t chunk, Scratch& scratch) {
    ChunkResult& result = results_[chunk];
    const std::int64_t first = layout.start(chunk), last = layout.start(chunk + 1);
    DpcmlTotals totals;
    scratch.pairs.clear();
    result.vectors.clear();
    if (static_cast<std::int64_t>(scratch.steps.size()) < last - first) scratch.steps.resize(last - first);
    draw_chunk(layout, first, last, scratch);
    std::int64_t waiting = -1;  // a step whose update of the user waits for the rows that it prefetches
    const auto update = [&] {
      if (waiting < 0) return;
      PositiveStep& step = scratch.steps[waiting - first];
      scratch.computer.update_user_vectors(layout.positives()[waiting].user, step, state_);
      totals.dcrs += step.dcrs;
      waiting = -1;
    };
    for (std::int64_t s = first; s < last; ++s) {
      if (s + 2 < last && layout.positives()[s + 2].user != layout.positives()[s + 1].user)
        prefetch_user(layout.positives()[s + 2]);
      if (s + 1 < last)
        scratch.computer.prefetch_items(layout.positives()[s + 1].positive_index, scratch.steps[s + 1 - first]);
      const auto [user, positive_index] = layout.positives()[s];
      if (waiting >= 0 && layout.positives()[waiting].user == user) update();
      PositiveStep& step = scratch.steps[s - first];
      if (!scratch.computer.compute(user, positive_index, step)) {
        ++totals.n_skipped;
        continue;
      }
      ++totals.n_steps;
      totals.loss += step.loss;
      scratch.computer.prefetch_update(step);
      update();
      waiting = s;
      if (settings_.anchor > 0.0f) update();
      if (settings_.temperature > 0.0f) {
        keep_mixed(step, result.vectors);
      } else if (settings_.anchor > 0.0f) {
        keep_vectors(step, scratch, result.vectors);
      }
      const std::vector<PairGradient>& of_items =
          settings_.temperature > 0.0f ? step.item_gradients : step.pair_gradients;
      scratch.pairs.insert(scratch.pairs.end(), of_items.begin(), of_items.end());
    }
    update();
    totals.n_pair_gradients = static_cast<std::int64_t>(scratch.pairs.size());
    sort_by_shard(scratch.pairs, result);
    return totals;
  }

  // The items of a shard, after all users of the block.
  void train_items(std::int64_t n_chunks, int shard, Scratch& scratch) {
    std::vector<ItemGradient>& gradients = scratch.item_gradients;
    gradients.clear();
    for (std::int64_t chunk = 0; chunk < n_chunks; ++chunk) {
      const ChunkResult& result = results_[chunk];
      const bool kept = settings_.anchor > 0.0f || settings_.temperature > 0.0f;
      const float* vectors = kept ? result.vectors.data() : state_.user_vectors.data();
      for (std::int32_t p = result.shard_starts[shard]; p < result.shard_starts[shard + 1]; ++p)
        gradients.push_back(
            {vectors + result.pairs[p].vector * state_.dim, result.pairs[p].item, result.pairs[p].derivative});
    }
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      if (p + kPrefetchDistance < gradients.size()) prefetch_item(gradients[p + kPrefetchDistance]);
      train_item(gradients[p]);
    }
  }

 private:
  // The negatives of a chunk, before its steps: nothing that is learned is read, and searches among the items of
  // different users overlap.
  void draw_chunk(const BlockLayout& layout, std::int64_t first, std::int64_t last, Scratch& scratch) const {
    const std::span<const BlockPositive> positives = layout.positives();
    for (std::int64_t s = first; s < std::min(last, first + kUsersAhead); ++s) prefetch_lists(positives[s]);
    for (std::int64_t s = first; s < last; ++s) {
      if (s + kUsersAhead < layout.n_positives()) prefetch_lists(positives[s + kUsersAhead]);
      const auto [user, index] = positives[s];
      scratch.computer.draw(user, CounterRng(seed_, epoch_, static_cast<std::uint64_t>(index)), scratch.steps[s - first]);
    }
    for (std::int64_t s = first; s < std::min(last, first + 2); ++s) prefetch_user(positives[s]);
    scratch.computer.prefetch_items(positives[first].positive_index, scratch.steps[0]);
  }

  // Append the vectors of the step's pairs, each once, and let the pairs refer to their rows in `kept`.
  void keep_vectors(PositiveStep& step, Scratch& scratch, std::vector<float>& kept) const {
    scratch.rows.clear();
    for (PairGradient& pair : step.pair_gradients) {
      const auto known = std::find_if(scratch.rows.begin(), scratch.rows.end(),
                                      [&pair](const auto& row) { return row.first == pair.vector; });
      if (known != scratch.rows.end()) {
        pair.vector = known->second;
        continue;
      }
      const float* vector = scratch.computer.vector(pair.vector);
      const auto row = static_cast<std::int64_t>(kept.size()) / state_.dim;
      kept.insert(kept.end(), vector, vector + state_.dim);
      scratch.rows.emplace_back(pair.vector, row);
      pair.vector = row;
    }
  }

  // Append the mixed vectors of the step, and let its item gradients refer to their rows in `kept`.
  void keep_mixed(PositiveStep& step, std::vector<float>& kept) const {
    const auto before = static_cast<std::int64_t>(kept.size()) / state_.dim;
    kept.insert(kept.end(), step.mixed.begin(), step.mixed.end());
    for (PairGradient& pair : step.item_gradients) pair.vector += before;
  }

  // Counting sort, which is stable.
  void sort_by_shard(std::span<const PairGradient> pairs, ChunkResult& result) const {
    std::vector<std::int32_t>& starts = result.shard_starts;
    starts.assign(n_shards_ + 2, 0);  // first the number of each shard, two places on
    for (const PairGradient& pair : pairs) ++starts[shard_of_item(pair.item, n_shards_) + 2];
    for (int shard = 0; shard < n_shards_; ++shard) starts[shard + 2] += starts[shard + 1];
    result.pairs.resize(pairs.size());
    for (const PairGradient& pair : pairs) result.pairs[starts[shard_of_item(pair.item, n_shards_) + 1]++] = pair;
  }

  void train_item(const ItemGradient& gradient) {
    float* item = state_.item_vectors.data() + gradient.item * state_.dim;
    const float* vector = gradient.vector;
    const float scale = 2.0f * gradient.derivative;
    const float squared_norm = optimizer_step(
        state_.item_vectors.data(),
        [=]<class V>(std::int64_t k, V) { return (simd::load<V>(item + k) - simd::load<V>(vector + k)) * scale; },
        gradient.item, state_.dim, settings_.optimizer, state_.item_optimizer);
    project(item, squared_norm, state_.dim, settings_.item_region, settings_.radius);
  }

  void prefetch_user(const BlockPositive& positive) const {
    const auto [user, positive_index] = positive;
    const std::int64_t first = data_.vector_offsets[user] * state_.dim;
    const std::int64_t n = data_.vector_offsets[user + 1] * state_.dim - first;
    simd::prefetch(state_.user_vectors.data() + first, n);
    if (settings_.anchor > 0.0f) {
      simd::prefetch(state_.anchors.sums.data() + first, n);
      __builtin_prefetch(state_.anchors.counts.data() + data_.vector_offsets[user]);
      __builtin_prefetch(state_.anchors.assignments.data() + positive_index);
    }
  }

  // What drawing reads.
  void prefetch_lists(const BlockPositive& positive) const {
    const auto [user, positive_index] = positive;
    const std::int64_t from = data_.offsets[user], to = data_.offsets[user + 1];
    const ItemFilter filter = data_.index.filter(user, to - from);
    if (!filter.empty()) filter.prefetch();
    if (!filter.exact())
      for (std::int64_t k = from; k < std::min(to, from + kItemsPrefetched); k += 16)
        __builtin_prefetch(data_.positives.data() + k);
    __builtin_prefetch(data_.positives.data() + positive_index);
  }


  void prefetch_item(const ItemGradient& next) const {
    const std::int64_t item = next.item * state_.dim;
    simd::prefetch(state_.item_vectors.data() + item, state_.dim);
    simd::prefetch(next.vector, state_.dim);
    if (!state_.item_optimizer.first.empty()) simd::prefetch(state_.item_optimizer.first.data() + item, state_.dim);
  }

  const DpcmlData& data_;
  DpcmlState& state_;
  const DpcmlSettings& settings_;
  std::uint64_t seed_, epoch_;
  int n_shards_;
  std::vector<ChunkResult> results_;  // of the block's chunks
};

// A block: its positives, and the sums over the steps of each chunk.
struct Block {
  BlockLayout layout;
  std::vector<DpcmlTotals> totals;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

DpcmlTotals train_dpcml(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
                        std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads,
                        Interrupt& interrupt) {
  if (settings.batches) return train_in_batches(data, state, settings, seed, epoch, first, last, interrupt);
  // Which positives a block has does not depend on what is learned: many blocks are laid out at once, a block per
  // thread. Then they are trained on, one after the other, with two barriers in each.
  const Clock::time_point start = Clock::now();
  const std::int64_t size = settings.block_size, at_once = std::max<std::int64_t>(1, kPositivesPrepared / size);
  const int n_shards = kShardsPerThread * threads;
  BlockTrainer trainer(data, state, settings, seed, epoch, n_shards);
  const EpochOrder order(data.offsets, data.index.users, static_cast<std::int64_t>(data.positives.size()), seed, epoch,
                         data.visited);
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
  std::vector<Block> blocks(std::min(at_once, (last - first + size - 1) / size), Block{BlockLayout(order, n_users), {}});
  DpcmlTotals sums;
  double serial = seconds_since(start);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<Scratch> scratch;
    errors.run([&] { scratch.emplace(data, state, settings); });
    for (std::int64_t from = first; from < last; from += at_once * size) {
      const std::int64_t n_blocks = std::min(at_once, (last - from + size - 1) / size);
#pragma omp for schedule(dynamic)
      for (std::int64_t b = 0; b < n_blocks; ++b)
        errors.run([&] {
          if (interrupt.requested()) return;
          BlockLayout& layout = blocks[b].layout;
          layout.load_block(from + b * size, std::min(last, from + (b + 1) * size));
          blocks[b].totals.assign(layout.n_chunks(), {});
        });
#pragma omp single
      errors.run([&] {
        const Clock::time_point now = Clock::now();
        std::int64_t n_chunks = 0;
        for (std::int64_t b = 0; b < n_blocks; ++b) n_chunks = std::max(n_chunks, blocks[b].layout.n_chunks());
        trainer.reserve(n_chunks);
        serial += seconds_since(now);
      });
      for (std::int64_t b = 0; b < n_blocks; ++b) {
        const BlockLayout& layout = blocks[b].layout;
#pragma omp for schedule(dynamic)
        for (std::int64_t chunk = 0; chunk < layout.n_chunks(); ++chunk)
          errors.run([&] {
            if (!interrupt.requested()) blocks[b].totals[chunk] = trainer.train_users(layout, chunk, *scratch);
          });
#pragma omp for schedule(dynamic)
        for (int shard = 0; shard < n_shards; ++shard)
          errors.run([&] {
            if (!interrupt.requested()) trainer.train_items(layout.n_chunks(), shard, *scratch);
          });
      }
#pragma omp single
      {
        const Clock::time_point now = Clock::now();
        for (std::int64_t b = 0; b < n_blocks; ++b)  // in order: the same sum for every number of threads
          for (const DpcmlTotals& chunk : blocks[b].totals) sums = sums + chunk;
        serial += seconds_since(now);
      }
    }
  }
  errors.rethrow();
  sums.seconds = seconds_since(start);
  sums.serial_seconds = serial;
  return sums;
}

PositiveStep dpcml_loss_and_gradient(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings,
                                     std::uint64_t seed, std::uint64_t epoch, std::int64_t positive_index,
                                     std::span<float> user_gradient, std::span<float> item_gradient) {
  StepComputer computer(data, state, settings);
  PositiveStep step;
  const std::int64_t user = row_of_position(data.offsets, positive_index);
  const float gamma = state.gamma.empty() ? 0.0f : state.gamma[positive_index];
  computer.draw(user, CounterRng(seed, epoch, static_cast<std::uint64_t>(positive_index)), step);
  if (!computer.compute(user, positive_index, step)) return step;
  if (!state.gamma.empty()) state.gamma[positive_index] = gamma;  // computing the step updated it
  const std::span<const float> own = computer.user_gradient(step);
  std::copy(own.begin(), own.end(), user_gradient.begin() + data.vector_offsets[user] * state.dim);
  const bool smooth = settings.temperature > 0.0f;
  for (const PairGradient& pair : smooth ? step.item_gradients : step.pair_gradients)
    simd::add_difference(item_gradient.data() + pair.item * state.dim, 2.0f * pair.derivative,
                         state.item_vectors.data() + pair.item * state.dim,
                         smooth ? step.mixed.data() + pair.vector * state.dim : computer.vector(pair.vector), state.dim);
  return step;
}

}  // namespace tastespace
