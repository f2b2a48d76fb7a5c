#include "bpr.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "block_layout.hpp"
#include "negatives.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kPrefetchDistance = 4;       // steps between the prefetch of a row and its use
constexpr std::int64_t kPositivesPrepared = 1 << 15;  // whose triples are drawn at once: a megabyte of them
constexpr std::int32_t kNoItem = -1;

// A user, an item that the user took, one that the user did not, and the result of their step.
struct Triple {
  std::int64_t user;
  std::int32_t positive, negative;  // items; negative is kNoItem where the user has every item
  float derivative;                 // minus that of the loss with respect to the score difference s: sigmoid(-s)
  float linear, exponential;        // the loss ln(1 + exp(-s)) is max(0, -s) + ln(1 + exp(-|s|))
};

// The triples of a block, by user.
struct Block {
  std::vector<Triple> triples;
  std::vector<std::int64_t> starts;  // the triples of group g, all of one user, are starts[g] ... starts[g + 1] - 1
  std::int64_t n_triples() const { return static_cast<std::int64_t>(triples.size()); }
  std::int64_t n_groups() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

// The gradient that a (user, item) pair contributes: the derivative of the loss with respect to the item's score.
struct PairGradient {
  std::int64_t user;
  std::int32_t item;
  float derivative;
};

// Working memory of one thread.
struct Scratch {
  Scratch(const BprData& data, const BprState& state, std::uint64_t seed, std::uint64_t epoch)
      : layout(data.offsets, data.positives.size(), seed, epoch, data.visited), sampler(state.n_items(), {}),
        gradient(state.dim) {}
  BlockLayout layout;
  NegativeSampler sampler;
  std::vector<std::int32_t> drawn;
  std::vector<PairGradient> pairs;  // of this thread's items, in order
  std::vector<float> gradient;
};

// <x, a - b>
float dot_difference(const float* x, const float* a, const float* b, std::int64_t dim) {
  simd::Vec wide{};
  std::int64_t k = 0;
  for (; k + simd::kLanes <= dim; k += simd::kLanes)
    wide += simd::load<simd::Vec>(x + k) * (simd::load<simd::Vec>(a + k) - simd::load<simd::Vec>(b + k));
  float total = simd::sum_of_four(simd::fold_to_four(wide));
  for (; k < dim; ++k) total += x[k] * (a[k] - b[k]);
  return total;
}

class BprTrainer {
 public:
  BprTrainer(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
             std::uint64_t epoch)
      : data_(data), state_(state), settings_(settings), seed_(seed), epoch_(epoch) {}

  // Draw the triples of the positives number first ... last - 1.
  void prepare(Block& block, std::int64_t first, std::int64_t last, Scratch& scratch) const {
    scratch.layout.load_block(first, last);
    block.starts.assign(scratch.layout.starts().begin(), scratch.layout.starts().end());
    block.triples.clear();
    for (const auto [user, positive_index] : scratch.layout.positives())
      block.triples.push_back(
          draw(user, positive_index, CounterRng(seed_, epoch_, static_cast<std::uint64_t>(positive_index)), scratch));
  }

  void train_user(Block& block, std::int64_t group, Scratch& scratch) {
    for (std::int64_t s = block.starts[group]; s < block.starts[group + 1]; ++s) {
      if (s + kPrefetchDistance < block.n_triples()) prefetch_triple(block.triples[s + kPrefetchDistance]);
      step_user(block.triples[s], scratch.gradient.data());
    }
  }

  // One epoch over one user's positives, with the items fixed: it does not depend on the other users.
  void fold_in(std::int64_t user, Scratch& scratch) {
    const std::int64_t start = data_.offsets[user], n = data_.offsets[user + 1] - start;
    const Permutation order(static_cast<std::uint64_t>(n), seed_, epoch_);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t own = order(static_cast<std::uint64_t>(i));
      Triple triple = draw(user, start + static_cast<std::int64_t>(own), CounterRng(seed_, epoch_, own), scratch);
      step_user(triple, scratch.gradient.data());
    }
  }

  // With the users as they are after the block's steps.
  void train_items(const Block& block, int thread, int threads, Scratch& scratch) {
    scratch.pairs.clear();
    for (const Triple& triple : block.triples) {
      if (triple.negative == kNoItem) continue;
      for (const auto& [item, derivative] :
           {std::pair(triple.positive, -triple.derivative), {triple.negative, triple.derivative}})
        if (thread_of_item(item, threads) == thread) scratch.pairs.push_back({triple.user, item, derivative});
    }
    const auto n = static_cast<std::int64_t>(scratch.pairs.size());
    for (std::int64_t p = 0; p < n; ++p) {
      if (p + kPrefetchDistance < n) prefetch_pair(scratch.pairs[p + kPrefetchDistance]);
      step_item(scratch.pairs[p], scratch.gradient.data());
    }
  }

 private:
  Triple draw(std::int64_t user, std::int64_t positive_index, CounterRng rng, Scratch& scratch) const {
    const std::int64_t from = data_.offsets[user], to = data_.offsets[user + 1];
    scratch.sampler.draw(data_.positives.subspan(from, to - from), 1, rng, scratch.drawn);
    const std::int32_t negative = scratch.drawn.empty() ? kNoItem : scratch.drawn[0];
    return {user, data_.positives[positive_index], negative, 0.0f, 0.0f, 0.0f};
  }

  // Completes the triple and updates the user's vector.
  void step_user(Triple& triple, float* gradient) {
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
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      const V away = simd::load<V>(other + k) - simd::load<V>(taken + k);
      simd::store(gradient + k, away * derivative + simd::load<V>(x + k) * shrink);
    });
    optimizer_step(state_.user_vectors.data(), gradient, triple.user, dim, settings_.optimizer, state_.user_optimizer);
  }

  void step_item(const PairGradient& pair, float* gradient) {
    const std::int64_t dim = state_.dim;
    const float* x = state_.user_vectors.data() + pair.user * dim;
    const float* v = state_.item_vectors.data() + pair.item * dim;
    const float shrink = settings_.regularization;
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      simd::store(gradient + k, simd::load<V>(x + k) * pair.derivative + simd::load<V>(v + k) * shrink);
    });
    optimizer_step(state_.item_vectors.data(), gradient, pair.item, dim, settings_.optimizer, state_.item_optimizer);
    const float of_bias = pair.derivative + settings_.bias_regularization * state_.bias[pair.item];
    optimizer_step(state_.bias.data(), &of_bias, pair.item, 1, settings_.optimizer, state_.bias_optimizer);
  }

  void prefetch_row(std::span<const float> values, std::span<const float> optimizer, std::int64_t row) const {
    simd::prefetch(values.data() + row * state_.dim, state_.dim);
    if (!optimizer.empty()) simd::prefetch(optimizer.data() + row * state_.dim, state_.dim);
  }

  void prefetch_triple(const Triple& triple) const {
    prefetch_row(state_.user_vectors, state_.user_optimizer.first, triple.user);
    prefetch_row(state_.item_vectors, {}, triple.positive);
    prefetch_row(state_.item_vectors, {}, std::max(0, triple.negative));
  }

  void prefetch_pair(const PairGradient& pair) const {
    prefetch_row(state_.user_vectors, {}, pair.user);
    prefetch_row(state_.item_vectors, state_.item_optimizer.first, pair.item);
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
                    std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
  // The triples do not depend on what is learned: they are drawn for many blocks at once, a block per thread. Then the
  // blocks are trained on, one after the other, with two barriers in each.
  BprTrainer trainer(data, state, settings, seed, epoch);
  const std::int64_t size = settings.block_size, at_once = std::max<std::int64_t>(1, kPositivesPrepared / size);
  std::vector<Block> blocks(at_once);
  BprTotals totals;
#pragma omp parallel num_threads(threads)
  {
    Scratch scratch(data, state, seed, epoch);
    const int thread = omp_get_thread_num(), n_threads = omp_get_num_threads();
    for (std::int64_t from = first; from < last; from += at_once * size) {
      const std::int64_t n_blocks = std::min(at_once, (last - from + size - 1) / size);
#pragma omp for schedule(dynamic)
      for (std::int64_t b = 0; b < n_blocks; ++b)
        trainer.prepare(blocks[b], from + b * size, std::min(last, from + (b + 1) * size), scratch);
      for (std::int64_t b = 0; b < n_blocks; ++b) {
#pragma omp for schedule(dynamic, 16)
        for (std::int64_t group = 0; group < blocks[b].n_groups(); ++group)
          trainer.train_user(blocks[b], group, scratch);
        trainer.train_items(blocks[b], thread, n_threads, scratch);
#pragma omp barrier
      }
#pragma omp single
      for (std::int64_t b = 0; b < n_blocks; ++b) add_up(blocks[b], totals);
    }
  }
  return totals;
}

void fold_in_bpr(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                 std::int64_t epochs, std::int64_t average, std::span<float> mean_user_vectors, int threads) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
#pragma omp parallel num_threads(threads)
  {
    Scratch scratch(data, state, seed, 0);
#pragma omp for schedule(dynamic)
    for (std::int64_t user = 0; user < n_users; ++user)
      for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
        BprTrainer(data, state, settings, seed, static_cast<std::uint64_t>(epoch)).fold_in(user, scratch);
        const float weight = 1.0f / static_cast<float>(std::min(epoch + 1, std::max<std::int64_t>(1, average)));
        for (std::int64_t k = user * state.dim; k < (user + 1) * state.dim; ++k)
          mean_user_vectors[k] += weight * (state.user_vectors[k] - mean_user_vectors[k]);
      }
  }
}

}  // namespace tastespace
