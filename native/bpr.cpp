#include "bpr.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "negatives.hpp"

namespace tastespace {
namespace {

constexpr std::int64_t kAhead = 4;            // visits between asking for a row and using it
constexpr std::int64_t kPrepared = 1 << 15;  // positives that are prepared in one go: a megabyte of notes
constexpr std::int32_t kNone = -1;

// One visit: the user pulls one item and pushes the other, both with `strength` = sigmoid(-s).
struct Note {
  std::int64_t user;
  std::int32_t positive, negative;  // items; negative is kNone where the user has everything
  float strength;
  float below, rest;  // of the loss ln(1 + exp(-s)) = below + ln(1 + rest): max(0, -s) and exp(-|s|)
};

// What is visited and compared with what, by user, and then what the visits found.
struct Block {
  std::vector<Note> notes;
  std::vector<std::int64_t> starts;  // the notes of group g, all of one user, are starts[g] ... starts[g + 1] - 1
  std::int64_t n_notes() const { return static_cast<std::int64_t>(notes.size()); }
  std::int64_t n_groups() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

// An item's part in a visit.
struct Turn {
  std::int64_t user;
  std::int32_t item;
  float slope;  // of the loss in the item's score
};

// One thread's workbench.
struct Bench {
  Bench(const BprData& data, std::int64_t dim, std::uint64_t seed, std::uint64_t epoch)
      : layout(data.offsets, data.positives.size(), seed, epoch), drawer(data.n_items, {}), gradient(dim) {}
  BlockLayout layout;
  NegativeDrawer drawer;
  std::vector<std::int32_t> drawn;
  std::vector<Turn> turns;  // of this thread's items, in order
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

  // The positives number first ... last - 1 and their negatives.
  void prepare(Block& block, std::int64_t first, std::int64_t last, Bench& bench) const {
    bench.layout.lay_out(first, last);
    block.starts.assign(bench.layout.starts().begin(), bench.layout.starts().end());
    block.notes.clear();
    for (const auto [user, positive] : bench.layout.slots())
      block.notes.push_back(draw(user, positive, Stream(seed_, epoch_, static_cast<std::uint64_t>(positive)), bench));
  }

  void learn_user(Block& block, std::int64_t group, Bench& bench) {
    for (std::int64_t s = block.starts[group]; s < block.starts[group + 1]; ++s) {
      if (s + kAhead < block.n_notes()) prefetch_visit(block.notes[s + kAhead]);
      visit(block.notes[s], bench.gradient.data());
    }
  }

  // One epoch over the own positives of a user who learns alone: nothing depends on who else is there.
  void learn_alone(std::int64_t user, Bench& bench) {
    const std::int64_t start = data_.offsets[user], n = data_.offsets[user + 1] - start;
    const Permutation order(static_cast<std::uint64_t>(n), seed_, epoch_);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t own = order(static_cast<std::uint64_t>(i));
      Note note = draw(user, start + static_cast<std::int64_t>(own), Stream(seed_, epoch_, own), bench);
      visit(note, bench.gradient.data());
    }
  }

  // Against the users as they now stand.
  void learn_items(const Block& block, int thread, int threads, Bench& bench) {
    bench.turns.clear();
    for (const Note& note : block.notes) {
      if (note.negative == kNone) continue;
      for (const auto& [item, slope] : {std::pair(note.positive, -note.strength), {note.negative, note.strength}})
        if (owner_of_item(item, threads) == thread) bench.turns.push_back({note.user, item, slope});
    }
    const auto n = static_cast<std::int64_t>(bench.turns.size());
    for (std::int64_t t = 0; t < n; ++t) {
      if (t + kAhead < n) prefetch_turn(bench.turns[t + kAhead]);
      learn_item(bench.turns[t], bench.gradient.data());
    }
  }

 private:
  Note draw(std::int64_t user, std::int64_t positive, Stream stream, Bench& bench) const {
    const std::int64_t from = data_.offsets[user], to = data_.offsets[user + 1];
    bench.drawer.draw(data_.positives.subspan(from, to - from), 1, stream, bench.drawn);
    return {user, data_.positives[positive], bench.drawn.empty() ? kNone : bench.drawn[0], 0.0f, 0.0f, 0.0f};
  }

  // Completes the note, and the user takes a step.
  void visit(Note& note, float* gradient) {
    if (note.negative == kNone) return;
    const std::int64_t dim = state_.dim;
    const float* x = state_.users.data() + note.user * dim;
    const float* liked = state_.items.data() + note.positive * dim;
    const float* other = state_.items.data() + note.negative * dim;
    const float score = dot_difference(x, liked, other, dim) + state_.bias[note.positive] - state_.bias[note.negative];
    note.rest = std::exp(-std::abs(score));  // never overflows
    note.below = std::max(0.0f, -score);
    note.strength = (score > 0.0f ? note.rest : 1.0f) / (1.0f + note.rest);
    const float strength = note.strength, shrink = settings_.regularization;
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      const V away = simd::load<V>(other + k) - simd::load<V>(liked + k);
      simd::store(gradient + k, away * strength + simd::load<V>(x + k) * shrink);
    });
    descend(state_.users.data(), gradient, note.user, dim, settings_.optimizer, state_.user_optimizer);
  }

  void learn_item(const Turn& turn, float* gradient) {
    const std::int64_t dim = state_.dim;
    const float* x = state_.users.data() + turn.user * dim;
    const float* v = state_.items.data() + turn.item * dim;
    const float shrink = settings_.regularization;
    detail::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      simd::store(gradient + k, simd::load<V>(x + k) * turn.slope + simd::load<V>(v + k) * shrink);
    });
    descend(state_.items.data(), gradient, turn.item, dim, settings_.optimizer, state_.item_optimizer);
    const float of_bias = turn.slope + settings_.bias_regularization * state_.bias[turn.item];
    descend(state_.bias.data(), &of_bias, turn.item, 1, settings_.optimizer, state_.bias_optimizer);
  }

  void prefetch_row(std::span<const float> values, std::span<const float> memory, std::int64_t row) const {
    simd::prefetch(values.data() + row * state_.dim, state_.dim);
    if (!memory.empty()) simd::prefetch(memory.data() + row * state_.dim, state_.dim);
  }

  void prefetch_visit(const Note& note) const {
    prefetch_row(state_.users, state_.user_optimizer.first, note.user);
    prefetch_row(state_.items, {}, note.positive);
    prefetch_row(state_.items, {}, std::max(0, note.negative));
  }

  void prefetch_turn(const Turn& turn) const {
    prefetch_row(state_.users, {}, turn.user);
    prefetch_row(state_.items, state_.item_optimizer.first, turn.item);
  }

  const BprData& data_;
  BprState& state_;
  const BprSettings& settings_;
  std::uint64_t seed_, epoch_;
};

void add_up(const Block& block, BprTotals& totals) {  // in order: the same sum for every number of threads
  double product = 1.0;  // one logarithm for many factors, each at most 2
  for (const Note& note : block.notes) {
    if (note.negative == kNone) continue;
    ++totals.visited;
    totals.right += note.strength < 0.5f;
    totals.loss += note.below;
    product *= 1.0 + note.rest;
    if (product > 0x1.0p512) totals.loss += std::log(std::exchange(product, 1.0));
  }
  totals.loss += std::log(product);
}

}  // namespace

BprTotals bpr_range(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                    std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
  // Visits and negatives do not depend on what is learned: they are prepared for many blocks in one go, a block per
  // thread. Then the blocks are learned from, one after the other, and threads wait for each other twice in each.
  BprTrainer trainer(data, state, settings, seed, epoch);
  const std::int64_t size = settings.block, at_once = std::max<std::int64_t>(1, kPrepared / size);
  std::vector<Block> blocks(at_once);
  BprTotals totals;
#pragma omp parallel num_threads(threads)
  {
    Bench bench(data, state.dim, seed, epoch);
    const int thread = omp_get_thread_num(), present = omp_get_num_threads();
    for (std::int64_t from = first; from < last; from += at_once * size) {
      const std::int64_t n_blocks = std::min(at_once, (last - from + size - 1) / size);
#pragma omp for schedule(dynamic)
      for (std::int64_t b = 0; b < n_blocks; ++b)
        trainer.prepare(blocks[b], from + b * size, std::min(last, from + (b + 1) * size), bench);
      for (std::int64_t b = 0; b < n_blocks; ++b) {
#pragma omp for schedule(dynamic, 16)
        for (std::int64_t group = 0; group < blocks[b].n_groups(); ++group) trainer.learn_user(blocks[b], group, bench);
        trainer.learn_items(blocks[b], thread, present, bench);
#pragma omp barrier
      }
#pragma omp single
      for (std::int64_t b = 0; b < n_blocks; ++b) add_up(blocks[b], totals);
    }
  }
  return totals;
}

void bpr_newcomers(const BprData& data, BprState& state, const BprSettings& settings, std::uint64_t seed,
                   std::int64_t epochs, std::int64_t average, std::span<float> mean_users, int threads) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
#pragma omp parallel num_threads(threads)
  {
    Bench bench(data, state.dim, seed, 0);
#pragma omp for schedule(dynamic)
    for (std::int64_t user = 0; user < n_users; ++user)
      for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
        BprTrainer(data, state, settings, seed, static_cast<std::uint64_t>(epoch)).learn_alone(user, bench);
        const float weight = 1.0f / static_cast<float>(std::min(epoch + 1, std::max<std::int64_t>(1, average)));
        for (std::int64_t k = user * state.dim; k < (user + 1) * state.dim; ++k)
          mean_users[k] += weight * (state.users[k] - mean_users[k]);
      }
  }
}

}  // namespace tastespace
