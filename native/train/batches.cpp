#include "train/batches.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/random.hpp"
#include "core/simd.hpp"
#include "train/block_layout.hpp"
#include "train/positive_step.hpp"

namespace tastespace {
namespace {

constexpr double kForgotten = 1e-10;       // share of a mean gradient after which steps without a gradient are nothing
constexpr std::int64_t kMostSteps = 4096;  // without a gradient that are computed at most

// Steps of Adam for rows without a gradient, made up for when the row is next needed. While nothing is added the mean
// gradient m only shrinks, by b1 a step, and v by b2: the row moves along D = m / (sqrt(v) + epsilon), projections scale
// it, so it stays in the plane of itself and D. Two coefficients follow all steps; the row is read and written once.
// (epsilon is taken at the first of the steps: it matters only where gradients are as small as it is.)
class IdleSteps {
 public:
  // For steps number first + 1 ... last.
  IdleSteps(const OptimizerSettings& settings, std::int64_t first, std::int64_t last, std::int64_t dim)
      : first_(first), epsilon_(settings.epsilon), direction_(dim) {
    const double b1 = settings.beta1, b2 = settings.beta2;
    for (std::int64_t t = first + 1; t <= last; ++t) {
      rate_.push_back(settings.learning_rate / (1.0 - std::pow(b1, static_cast<double>(t))));
      root_.push_back(std::sqrt(1.0 / (1.0 - std::pow(b2, static_cast<double>(t)))));
    }
    for (double share = b1, k = 1.0; share > kForgotten && static_cast<std::int64_t>(k) <= kMostSteps; share *= b1, ++k) {
      mean_.push_back(share);
      square_root_.push_back(std::sqrt(std::pow(b2, k)));
    }
    beta1_ = b1;
    beta2_ = b2;
  }

  // Bring a row to step `to`, projecting it after every step.
  void catch_up(float* values, OptimizerState& state, std::int64_t row, std::int64_t dim, std::int64_t to, Region region,
                float radius) {
    using simd::load, simd::store;
    const std::int64_t from = state.steps[row], n = to - from;
    if (n <= 0) return;
    state.steps[row] = static_cast<std::int32_t>(to);
    if (from == 0) return;  // no gradient yet
    float *x = values + row * dim, *m = state.first.data() + row * dim, *v = state.second.data() + row * dim;
    float* d = direction_.data();
    const auto epsilon = static_cast<float>(epsilon_ / (square_root_[0] * root_[from - first_]));
    const auto m_left = static_cast<float>(std::pow(beta1_, static_cast<double>(n)));
    const auto v_left = static_cast<float>(std::pow(beta2_, static_cast<double>(n)));
    const float d_squared = simd::sum_of_parts(dim, [&]<class V>(std::int64_t k, V) {
      const V mean = load<V>(m + k), square = load<V>(v + k);
      const V direction = mean / (detail::root(square) + epsilon);
      store(d + k, direction);
      store(m + k, mean * m_left);
      store(v + k, square * v_left);
      return direction * direction;
    });
    if (d_squared == 0.0f) return;
    const double xx = simd::dot(x, x, dim), xd = simd::dot(x, d, dim), dd = d_squared;
    double of_x = 1.0, of_d = 0.0;
    const auto computed = std::min<std::int64_t>(n, static_cast<std::int64_t>(mean_.size()));
    for (std::int64_t k = 0; k < computed; ++k) {
      const std::int64_t t = from - first_ + k;
      of_d -= rate_[t] * mean_[k] / (square_root_[k] * root_[t]);
      if (region == Region::unbounded) continue;
      const double norm = std::sqrt(of_x * of_x * xx + 2.0 * of_x * of_d * xd + of_d * of_d * dd);
      if (norm > 0.0 && (region == Region::sphere || norm > radius)) {
        of_x *= radius / norm;
        of_d *= radius / norm;
      }
    }
    const auto a = static_cast<float>(of_x), b = static_cast<float>(of_d);
    simd::for_each_part(dim, [&]<class V>(std::int64_t k, V) { store(x + k, load<V>(x + k) * a + load<V>(d + k) * b); });
  }

 private:
  std::int64_t first_;
  double epsilon_, beta1_ = 0.0, beta2_ = 0.0;
  std::vector<double> rate_, root_;         // by step
  std::vector<double> mean_, square_root_;  // by steps without a gradient
  std::vector<float> direction_;
};

struct Member {
  std::int64_t user, positive_index, key;  // key: of its negatives
  bool operator<(const Member& other) const {
    return user != other.user ? user < other.user : key < other.key;
  }
};

class BatchTrainer {
 public:
  BatchTrainer(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::uint64_t seed,
               std::uint64_t epoch, std::int64_t step, std::int64_t n_batches)
      : data_(data), state_(state), settings_(settings), seed_(seed), epoch_(epoch), step_(step),
        eta_(settings.spread_weight * static_cast<float>(settings.block_size)), idle_(settings.optimizer, step, step + n_batches, state.dim),
        computer_(data, state_, settings_), slots_(state.n_items(), -1) {
    if (settings.sampler == Sampler::all) settings_.n_negatives = 1;
  }

  // A step on these members, which are sorted by user here.
  DpcmlTotals train(std::vector<Member>& members) {
    std::sort(members.begin(), members.end());
    if (steps_.size() < members.size()) steps_.resize(members.size());
    read_rows(members);
    DpcmlTotals totals;
    std::int64_t n_users = 0;
    for (std::size_t i = 0; i < members.size(); ++i) n_users += i == 0 || members[i].user != members[i - 1].user;
    settings_.spread_weight = eta_ / static_cast<float>(n_users);
    user_gradients_.clear();
    users_.clear();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Member& member = members[i];
      if (i == 0 || member.user != members[i - 1].user) merged_.pair_gradients.clear();
      const bool possible = computer_.compute(member.user, member.positive_index, steps_[i]);
      possible ? add(steps_[i], totals) : static_cast<void>(++totals.n_skipped);
      if (i + 1 < members.size() && members[i + 1].user == member.user) continue;
      merged_.dcrs = 0.0;
      const std::span<const float> gradient = computer_.user_gradient(merged_);
      totals.dcrs += merged_.dcrs;
      users_.push_back({member.user, static_cast<std::int64_t>(user_gradients_.size()),
                        static_cast<std::int64_t>(gradient.size()) / state_.dim});
      user_gradients_.insert(user_gradients_.end(), gradient.begin(), gradient.end());
    }
    step_rows();
    ++step_;
    return totals;
  }

  // Bring all rows to the last step.
  void finish() {
    const auto n_vectors = static_cast<std::int64_t>(state_.user_vectors.size()) / state_.dim;
    for (std::int64_t row = 0; row < n_vectors; ++row) catch_up_user(row);
    for (std::int32_t item = 0; item < state_.n_items(); ++item) catch_up_item(item);
  }

 private:
  struct UserGradient {
    std::int64_t user, place, n_vectors;  // place: in user_gradients_
  };

  void catch_up_user(std::int64_t row) {
    idle_.catch_up(state_.user_vectors.data(), state_.user_optimizer, row, state_.dim, step_, settings_.user_region,
                   settings_.radius);
  }
  void catch_up_item(std::int32_t item) {
    idle_.catch_up(state_.item_vectors.data(), state_.item_optimizer, item, state_.dim, step_, Region::unbounded,
                   settings_.radius);
  }

  // Draw the negatives; bring all vectors of the batch to the last step; give its items rows of gradients.
  void read_rows(const std::vector<Member>& members) {
    for (const std::int32_t item : items_) slots_[item] = -1;
    items_.clear();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Member& member = members[i];
      computer_.draw(member.user, CounterRng(seed_, epoch_, static_cast<std::uint64_t>(member.key)), steps_[i]);
      read_item(data_.positives[member.positive_index]);
      for (const std::int32_t item : steps_[i].negatives) read_item(item);
      for (std::int64_t row = data_.vector_offsets[member.user]; row < data_.vector_offsets[member.user + 1]; ++row)
        catch_up_user(row);
    }
    item_gradients_.assign(items_.size() * static_cast<std::size_t>(state_.dim), 0.0f);
    has_gradient_.assign(items_.size(), 0);
  }

  void read_item(std::int32_t item) {
    if (slots_[item] >= 0) return;
    slots_[item] = static_cast<std::int32_t>(items_.size());
    items_.push_back(item);
    catch_up_item(item);
    float* row = state_.item_vectors.data() + item * state_.dim;
    project(row, simd::dot(row, row, state_.dim), state_.dim, settings_.item_region, settings_.radius);
  }

  void add(const PositiveStep& step, DpcmlTotals& totals) {
    ++totals.n_steps;
    totals.loss += step.loss;
    merged_.pair_gradients.insert(merged_.pair_gradients.end(), step.pair_gradients.begin(), step.pair_gradients.end());
    const bool smooth = settings_.temperature > 0.0f;
    const std::vector<PairGradient>& of_items = smooth ? step.item_gradients : step.pair_gradients;
    totals.n_pair_gradients += static_cast<std::int64_t>(of_items.size());
    for (const PairGradient& pair : of_items) {
      const std::int32_t slot = slots_[pair.item];
      has_gradient_[slot] = 1;
      simd::add_difference(item_gradients_.data() + slot * state_.dim, 2.0f * pair.derivative,
                           state_.item_vectors.data() + pair.item * state_.dim,
                           smooth ? step.mixed.data() + pair.vector * state_.dim : computer_.vector(pair.vector),
                           state_.dim);
    }
  }

  void step_rows() {
    const std::int64_t dim = state_.dim;
    for (const UserGradient& own : users_)
      for (std::int64_t c = 0; c < own.n_vectors; ++c) {
        const std::int64_t row = data_.vector_offsets[own.user] + c;
        const float squared_norm = optimizer_step(state_.user_vectors.data(), user_gradients_.data() + own.place + c * dim,
                                                  row, dim, settings_.optimizer, state_.user_optimizer);
        project(state_.user_vectors.data() + row * dim, squared_norm, dim, settings_.user_region, settings_.radius);
      }
    for (std::size_t slot = 0; slot < items_.size(); ++slot)
      if (has_gradient_[slot])
        optimizer_step(state_.item_vectors.data(), item_gradients_.data() + slot * dim, items_[slot], dim,
                       settings_.optimizer, state_.item_optimizer);
  }

  const DpcmlData& data_;
  DpcmlState& state_;
  DpcmlSettings settings_;  // of the batch: the weight of DCRS follows from its number of users
  std::uint64_t seed_, epoch_;
  std::int64_t step_;  // the last one taken
  float eta_;  // for users whose dcrs_weight is the share of one of a whole batch
  IdleSteps idle_;
  StepComputer computer_;
  std::vector<PositiveStep> steps_;      // of the members
  PositiveStep merged_;                  // pair gradients of all members of a user
  std::vector<std::int32_t> slots_;      // per item: its row in item_gradients_, or -1
  std::vector<std::int32_t> items_;      // of the batch
  std::vector<float> item_gradients_, user_gradients_;
  std::vector<std::uint8_t> has_gradient_;  // per item of the batch
  std::vector<UserGradient> users_;
};

}  // namespace

DpcmlTotals train_in_batches(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings,
                             std::uint64_t seed, std::uint64_t epoch, std::int64_t first, std::int64_t last,
                             Interrupt& interrupt) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t size = settings.block_size, each = settings.sampler == Sampler::all ? settings.n_negatives : 1;
  const std::int64_t n = data.visited.empty() ? static_cast<std::int64_t>(data.positives.size())
                                              : static_cast<std::int64_t>(data.visited.size());
  const std::int64_t from = first * each, to = last * each, n_batches = (to - from + size - 1) / size;
  std::int32_t step = 0;
  for (const std::span<std::int32_t>& steps : {state.user_optimizer.steps, state.item_optimizer.steps})
    for (const std::int32_t taken : steps) step = std::max(step, taken);
  for (const std::span<std::int32_t>& steps : {state.user_optimizer.steps, state.item_optimizer.steps})
    std::fill(steps.begin(), steps.end(), step);
  BatchTrainer trainer(data, state, settings, seed, epoch, step, n_batches);
  const Permutation order(static_cast<std::uint64_t>(n * each), seed, epoch);
  std::vector<Member> members;
  DpcmlTotals totals;
  for (std::int64_t begin = from; begin < to && !interrupt.requested(); begin += size) {
    members.clear();
    for (std::int64_t i = begin; i < std::min(to, begin + size); ++i) {
      const auto key = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i)));
      const std::int64_t place = key / each, index = data.visited.empty() ? place : data.visited[place];
      const std::int64_t user = data.index.users.empty() ? row_of_position(data.offsets, index) : data.index.users[index];
      members.push_back({user, index, data.visited.empty() ? key : index * each + key % each});
    }
    totals = totals + trainer.train(members);
  }
  trainer.finish();
  totals.seconds = totals.serial_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return totals;
}

}  // namespace tastespace
