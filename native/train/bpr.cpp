#include "train/bpr.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "train/block_layout.hpp"
#include "train/negatives.hpp"
#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kPrefetchDistance = 3;       // steps between the prefetch of a row and its use
constexpr std::size_t kDrawsAhead = 12;               // the same for what is read to draw a triple
constexpr std::int64_t kPositivesPrepared = 1 << 15;  // whose triples are drawn at once: a megabyte of them
constexpr int kShardsPerThread = 8;                   // small parts, so that a thread that is held up holds up little
constexpr std::int32_t kNoItem = -1;                  // what NegativeSampler::draw_one gives where there is none

// A user, an item that the user took, one that the user did not, and the result of their step.
struct Triple {
  std::int64_t user;
  std::int32_t positive, negative;  // items; negative is kNoItem where the user has every item
  float derivative;                 // minus that of the loss with respect to the score difference s: sigmoid(-s)
  float linear, exponential;        // the loss ln(1 + exp(-s)) is max(0, -s) + ln(1 + exp(-|s|))
};

// The step of an item that a triple asks for.
struct ItemStep {
  std::int32_t triple;  // of the block
  bool positive;        // whether it is the triple's positive, or its negative
};

// A block: its triples by user, in chunks, and the steps of the items, in shards.
struct Block {
  std::vector<Triple> triples;
  std::vector<std::int64_t> chunk_starts;  // the triples of chunk c are chunk_starts[c] ... chunk_starts[c + 1] - 1
  std::vector<ItemStep> item_steps;        // in the order of the triples within a shard
  std::vector<std::int64_t> shard_starts;  // the steps of shard i are shard_starts[i] ... shard_starts[i + 1] - 1
  std::int64_t n_triples() const { return static_cast<std::int64_t>(triples.size()); }
  std::int64_t n_chunks() const { return static_cast<std::int64_t>(chunk_starts.size()) - 1; }
};

// Working memory of one thread.
struct Scratch {
  Scratch(const BprData& data, const BprState& state, std::uint64_t seed, std::uint64_t epoch)
      : layout(EpochOrder(data.offsets, data.index.users, static_cast<std::int64_t>(data.positives.size()), seed, epoch,
                          data.visited),
               static_cast<std::int64_t>(data.offsets.size()) - 1),
        sampler(state.n_items(), {}) {}
  BlockLayout layout;
  NegativeSampler sampler;
};

// <x, a - b>
float dot_difference(const float* x, const float* a, const float* b, std::int64_t dim) {
  return simd::sum_of_parts(dim, [=]<class V>(std::int64_t k, V) {
    return simd::load<V>(x + k) * (simd::load<V>(a + k) - simd::load<V>(b + k));
  });
}

class BprTrainer {
 public:
  BprTrainer(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
             std::uint64_t epoch)
      : data_(data), state_(state), settings_(settings), seed_(seed), epoch_(epoch) {}

  // Draw the triples of the positives number first ... last - 1.
  void prepare(Block& block, std::int64_t first, std::int64_t last, int n_shards, Scratch& scratch) const {
    scratch.layout.load_block(first, last);
    block.chunk_starts.assign(scratch.layout.starts().begin(), scratch.layout.starts().end());
    const std::span<const BlockPositive> positives = scratch.layout.positives();
    block.triples.resize(positives.size());
    for (std::size_t i = 0; i < positives.size(); ++i) {
      if (i + kDrawsAhead < positives.size()) prefetch_draw(positives[i + kDrawsAhead], scratch);
      const auto [user, positive_index] = positives[i];
      block.triples[i] = draw(user, positive_index, rng_of(positive_index), scratch);
    }
    sort_item_steps(block, n_shards);
  }

  // The users of a chunk, those of its two halves in turn: a step waits for the one before of the same user, and the
  // processor computes two users' steps side by side.
  void train_users(Block& block, std::int64_t chunk) {
    std::int64_t first = block.chunk_starts[chunk], last = block.chunk_starts[chunk + 1], half = (first + last) / 2;
    while (first < half && half < last && block.triples[half].user == block.triples[half - 1].user) ++half;
    const auto prefetch = [&](std::int64_t s, std::int64_t from, std::int64_t end) {
      if (s >= end) return;
      const bool is_first = s == from || block.triples[s].user != block.triples[s - 1].user;
      prefetch_triple(block.triples[s], is_first);
    };
    for (std::int64_t i = 0; i < kPrefetchDistance; ++i) {
      prefetch(first + i, first, half);
      prefetch(half + i, half, last);
    }
    for (std::int64_t a = first, b = half; a < half || b < last; ++a, ++b) {
      prefetch(a + kPrefetchDistance, first, half);
      prefetch(b + kPrefetchDistance, half, last);
      if (a < half) step_user(block.triples[a]);
      if (b < last) step_user(block.triples[b]);
    }
  }

  // The items of a shard, with the users as they are after the block's steps.
  void train_items(const Block& block, int shard) {
    const std::int64_t last = block.shard_starts[shard + 1];
    for (std::int64_t p = block.shard_starts[shard]; p < last; ++p) {
      if (p + kPrefetchDistance < last) prefetch_item_step(block, block.item_steps[p + kPrefetchDistance]);
      const Triple& triple = block.triples[block.item_steps[p].triple];
      block.item_steps[p].positive ? step_item(triple.user, triple.positive, -triple.derivative)
                                   : step_item(triple.user, triple.negative, triple.derivative);
    }
  }

  // One epoch over one user's positives, with the items fixed: it does not depend on the other users.
  void fold_in(std::int64_t user, Scratch& scratch, Interrupt& interrupt) {
    const std::int64_t start = data_.offsets[user], n = data_.offsets[user + 1] - start;
    const Permutation order(static_cast<std::uint64_t>(n), seed_, epoch_);
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % kChunkPositives == 0 && interrupt.requested()) return;
      const std::uint64_t own = order(static_cast<std::uint64_t>(i));
      Triple triple = draw(user, start + static_cast<std::int64_t>(own), CounterRng(seed_, epoch_, own), scratch);
      step_user(triple);
    }
  }

 private:
  CounterRng rng_of(std::int64_t positive_index) const {
    return CounterRng(seed_, epoch_, static_cast<std::uint64_t>(positive_index));
  }

  void prefetch_draw(const BlockPositive& positive, const Scratch& scratch) const {
    __builtin_prefetch(&data_.positives[positive.positive_index]);
    const std::int64_t n_taken = data_.offsets[positive.user + 1] - data_.offsets[positive.user];
    scratch.sampler.prefetch_one(data_.index.filter(positive.user, n_taken), rng_of(positive.positive_index));
  }

  Triple draw(std::int64_t user, std::int64_t positive_index, CounterRng rng, Scratch& scratch) const {
    const std::int64_t from = data_.offsets[user], to = data_.offsets[user + 1];
    const std::int32_t negative =
        scratch.sampler.draw_one(data_.positives.subspan(from, to - from), data_.index.filter(user, to - from), rng);
    return {user, data_.positives[positive_index], negative, 0.0f, 0.0f, 0.0f};
  }

  // Counting sort, which is stable.
  static void sort_item_steps(Block& block, int n_shards) {
    std::vector<std::int64_t>& starts = block.shard_starts;
    starts.assign(n_shards + 2, 0);  // first the number of each shard, two places on
    for (const Triple& triple : block.triples) {
      if (triple.negative == kNoItem) continue;
      for (const std::int32_t item : {triple.positive, triple.negative}) ++starts[shard_of_item(item, n_shards) + 2];
    }
    for (int shard = 0; shard < n_shards; ++shard) starts[shard + 2] += starts[shard + 1];
    block.item_steps.resize(starts.back());
    for (std::int64_t s = 0; s < block.n_triples(); ++s) {
      const Triple& triple = block.triples[s];
      if (triple.negative == kNoItem) continue;
      const auto index = static_cast<std::int32_t>(s);
      block.item_steps[starts[shard_of_item(triple.positive, n_shards) + 1]++] = {index, true};
      block.item_steps[starts[shard_of_item(triple.negative, n_shards) + 1]++] = {index, false};
    }
  }

  // Completes the triple and updates the user's vector.
  void step_user(Triple& triple) {
    if (triple.negative == kNoItem) return;
    const std::int64_t dim = state_.dim;
    const float* x = state_.user_vectors.data() + triple.user * dim;
    const float* taken = state_.item_vectors.data() + triple.positive * dim;
    const float* other = state_.item_vectors.data() + triple.negative * dim;
    const float score =
        dot_difference(x, taken, other, dim) + state_.bias[triple.positive] - state_.bias[triple.negative];
    triple.exponential = std::exp(-std::abs(score));  // never overflows
    triple.linear = std::max(0.0f, -score);
    triple.derivative = (score > 0.0f ? triple.exponential : 1.0f) / (1.0f + triple.exponential);
    const float derivative = triple.derivative, shrink = settings_.regularization;
    const auto gradient = [=]<class V>(std::int64_t k, V) {
      return (simd::load<V>(other + k) - simd::load<V>(taken + k)) * derivative + simd::load<V>(x + k) * shrink;
    };
    optimizer_step(state_.user_vectors.data(), gradient, triple.user, dim, settings_.optimizer, state_.user_optimizer);
  }

  // `derivative` is that of the loss with respect to the item's score.
  void step_item(std::int64_t user, std::int32_t item, float derivative) {
    const std::int64_t dim = state_.dim;
    const float* x = state_.user_vectors.data() + user * dim;
    const float* v = state_.item_vectors.data() + item * dim;
    const float shrink = settings_.regularization;
    const auto gradient = [=]<class V>(std::int64_t k, V) {
      return simd::load<V>(x + k) * derivative + simd::load<V>(v + k) * shrink;
    };
    optimizer_step(state_.item_vectors.data(), gradient, item, dim, settings_.optimizer, state_.item_optimizer);
    const float of_bias = derivative + settings_.bias_regularization * state_.bias[item];
    optimizer_step(state_.bias.data(), &of_bias, item, 1, settings_.optimizer, state_.bias_optimizer);
  }

  void prefetch_row(std::span<const float> values, std::span<const float> optimizer, std::int64_t row) const {
    simd::prefetch(values.data() + row * state_.dim, state_.dim);
    if (!optimizer.empty()) simd::prefetch(optimizer.data() + row * state_.dim, state_.dim);
  }

  void prefetch_triple(const Triple& triple, bool with_user) const {
    if (with_user) prefetch_row(state_.user_vectors, state_.user_optimizer.first, triple.user);
    prefetch_row(state_.item_vectors, {}, triple.positive);
    prefetch_row(state_.item_vectors, {}, std::max(0, triple.negative));
  }

  void prefetch_item_step(const Block& block, const ItemStep& step) const {
    const Triple& triple = block.triples[step.triple];
    prefetch_row(state_.user_vectors, {}, triple.user);
    prefetch_row(state_.item_vectors, state_.item_optimizer.first, step.positive ? triple.positive : triple.negative);
  }

  const BprData& data_;
  BprState& state_;
  const BprSettings& settings_;
  std::uint64_t seed_, epoch_;
};

void add_up(const Block& block, BprTotals& totals) {  // in order: the same sum for every number of threads
  double product = 1.0;  // one logarithm for many factors, each at most 2
  for (const Triple& triple : block.triples) {
    if (triple.negative == kNoItem) continue;
    ++totals.n_steps;
    totals.n_correct += triple.derivative < 0.5f;
    totals.loss += triple.linear;
    product *= 1.0 + triple.exponential;
    if (product > 0x1.0p512) totals.loss += std::log(std::exchange(product, 1.0));
  }
  totals.loss += std::log(product);
}

}  // namespace

BprTotals train_bpr(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                    std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads, Interrupt& interrupt) {
  // The triples do not depend on what is learned: they are drawn for many blocks at once, a block per thread. Then the
  // blocks are trained on, one after the other, with two barriers in each.
  BprTrainer trainer(data, state, settings, seed, epoch);
  const std::int64_t size = settings.block_size, at_once = std::max<std::int64_t>(1, kPositivesPrepared / size);
  const int n_shards = kShardsPerThread * threads;
  std::vector<Block> blocks(at_once);
  BprTotals totals;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<Scratch> scratch;
    errors.run([&] { scratch.emplace(data, state, seed, epoch); });
    for (std::int64_t from = first; from < last; from += at_once * size) {
      const std::int64_t n_blocks = std::min(at_once, (last - from + size - 1) / size);
#pragma omp for schedule(dynamic)
      for (std::int64_t b = 0; b < n_blocks; ++b)
        errors.run([&] {
          if (!interrupt.requested())
            trainer.prepare(blocks[b], from + b * size, std::min(last, from + (b + 1) * size), n_shards, *scratch);
        });
      for (std::int64_t b = 0; b < n_blocks; ++b) {
#pragma omp for schedule(dynamic)
        for (std::int64_t chunk = 0; chunk < blocks[b].n_chunks(); ++chunk)
          errors.run([&] {
            if (!interrupt.requested()) trainer.train_users(blocks[b], chunk);
          });
#pragma omp for schedule(dynamic)
        for (int shard = 0; shard < n_shards; ++shard)
          errors.run([&] {
            if (!interrupt.requested()) trainer.train_items(blocks[b], shard);
          });
      }
#pragma omp single
      for (std::int64_t b = 0; b < n_blocks; ++b) add_up(blocks[b], totals);
    }
  }
  errors.rethrow();
  return totals;
}

void fold_in_bpr(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                 std::int64_t epochs, std::int64_t average, std::span<float> mean_user_vectors, int threads,
                 Interrupt& interrupt) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<Scratch> scratch;
    errors.run([&] { scratch.emplace(data, state, seed, 0); });
#pragma omp for schedule(dynamic)
    for (std::int64_t user = 0; user < n_users; ++user)
      errors.run([&] {
        for (std::int64_t epoch = 0; epoch < epochs && !interrupt.requested(); ++epoch) {
          BprTrainer(data, state, settings, seed, static_cast<std::uint64_t>(epoch)).fold_in(user, *scratch, interrupt);
          const float weight = 1.0f / static_cast<float>(std::min(epoch + 1, std::max<std::int64_t>(1, average)));
          for (std::int64_t k = user * state.dim; k < (user + 1) * state.dim; ++k)
            mean_user_vectors[k] += weight * (state.user_vectors[k] - mean_user_vectors[k]);
        }
      });
  }
  errors.rethrow();
}

}  // namespace tastespace
