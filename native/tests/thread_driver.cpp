// Runs the parallel kernels with four threads, for the thread sanitizer, and compares their results with those of one
// thread. `thread_driver race` runs a loop with a data race instead, which the sanitizer must report.
#include <cstring>
#include <numeric>
#include <vector>

#include "train/als.hpp"
#include "train/bpr.hpp"
#include "core/csr.hpp"
#include "train/dpcml.hpp"
#include "rank/list_order.hpp"
#include "train/negatives.hpp"
#include "core/random.hpp"
#include "core/row_positions.hpp"
#include "rank/score_matrix.hpp"
#include "train/softmax_mf.hpp"
#include "rank/user_ranking.hpp"
#include "check.hpp"

using namespace tastespace;

namespace {

constexpr std::int64_t kUsers = 60, kItems = 80, kDim = 10, kVectors = 3;
constexpr int kThreads = 4;

std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  std::vector<float> out(n);
  CounterRng rng(seed, 0, 0);
  for (float& one : out) one = static_cast<float>(rng.next() >> 40) / 16777216.0f - 0.5f;
  return out;
}

struct Town {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> items;

  Town() {
    for (std::int64_t u = 0; u < kUsers; ++u) {
      for (std::int64_t i = 0; i < kItems; ++i)
        if (mix64(u * kItems + i) % 8 == 0) items.push_back(static_cast<std::int32_t>(i));
      offsets.push_back(static_cast<std::int64_t>(items.size()));
    }
  }
};

std::vector<float> dpcml(const Town& town, Sampler sampler, DcrsForm dcrs, Optimizer optimizer, int threads) {
  std::vector<std::int64_t> vector_offsets(kUsers + 1);
  for (std::int64_t u = 0; u <= kUsers; ++u) vector_offsets[u] = u * kVectors;
  const std::vector<float> ones(kUsers, 1.0f);
  const std::vector<std::int32_t> n_beta(kUsers, 2);
  DpcmlData data{};
  data.offsets = town.offsets;
  data.positives = town.items;
  data.vector_offsets = vector_offsets;
  data.loss_weight = ones;
  data.dcrs_weight = ones;
  data.n_beta = n_beta;
  auto users = numbers(kUsers * kVectors * kDim, 1), items = numbers(kItems * kDim, 2);
  std::vector<float> gamma(town.items.size(), -1.0f);
  std::vector<float> user_first(users.size()), user_second(users.size()), item_first(items.size()), item_second(items.size());
  std::vector<std::int32_t> user_steps(kUsers * kVectors), item_steps(kItems);
  DpcmlState state{};
  state.user_vectors = users;
  state.item_vectors = items;
  state.dim = kDim;
  state.user_optimizer = {user_first, user_second, user_steps};
  state.item_optimizer = {item_first, item_second, item_steps};
  state.gamma = gamma;
  DpcmlSettings settings{};
  settings.sampler = sampler;
  settings.n_negatives = 6;
  settings.n_hardest = 2;
  settings.margin = 1.0f;
  settings.distance_scale = 1.0f;
  settings.gamma_rule = GammaRule::average;
  settings.gamma_rate = 0.1f;
  settings.dcrs = dcrs;
  settings.spread_weight = 1.0f;
  settings.min_spread = 0.1f;
  settings.max_spread = 0.5f;
  settings.user_region = settings.item_region = Region::ball;
  settings.radius = 1.0f;
  settings.optimizer = {optimizer, 0.05f, 0.9f, 0.99f, 1e-6f};
  settings.block_size = 128;
  Interrupt interrupt;
  const auto n = static_cast<std::int64_t>(town.items.size());
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
    train_dpcml(data, state, settings, 7, epoch, 0, n, threads, interrupt);
  users.insert(users.end(), items.begin(), items.end());
  return users;
}

std::vector<float> bpr(const Town& town, int threads) {
  BprData data{};
  data.offsets = town.offsets;
  data.positives = town.items;
  auto users = numbers(kUsers * kDim, 1), items = numbers(kItems * kDim, 2);
  std::vector<float> bias(kItems), a(users.size()), b(items.size()), c(bias.size());
  BprState state{};
  state.user_vectors = users;
  state.item_vectors = items;
  state.bias = bias;
  state.dim = kDim;
  state.user_optimizer.first = a;
  state.item_optimizer.first = b;
  state.bias_optimizer.first = c;
  BprSettings settings{};
  settings.regularization = settings.bias_regularization = 0.01f;
  settings.optimizer = {Optimizer::adagrad, 0.05f, 0.9f, 0.99f, 1e-6f};
  settings.block_size = 128;
  Interrupt interrupt;
  train_bpr(data, state, settings, 7, 0, 0, static_cast<std::int64_t>(town.items.size()), threads, interrupt);
  users.insert(users.end(), items.begin(), items.end());
  return users;
}

std::vector<float> softmax_mf(const Town& town, int threads) {
  auto users = numbers(kUsers * kDim, 1), items = numbers(kItems * kDim, 2);
  std::vector<float> user_first(users.size()), user_second(kUsers), item_first(items.size()), item_second(kItems);
  SoftmaxState state{{users, user_first, user_second}, {items, item_first, item_second}, kDim};
  std::vector<std::int32_t> rows(kUsers), pools(2 * 30);
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t j = 0; j < pools.size(); ++j) pools[j] = static_cast<std::int32_t>(mix64(j) % kItems);
  const SoftmaxData data{town.offsets, town.items};
  Interrupt interrupt;
  train_softmax_mf(data, state, {0.1f, 0.03f, 40}, rows, pools, 30, 0, threads, interrupt);
  fold_in_softmax_mf(data, items, kDim, pools, 0.1f, 4, users, threads, interrupt);
  users.insert(users.end(), items.begin(), items.end());
  return users;
}

std::vector<std::int32_t> lists(const Town& town, int threads) {
  const auto items = numbers(kItems * kDim, 2), users = numbers(kUsers * kVectors * kDim, 1);
  const std::vector<float> item_terms(kItems), vector_terms(kUsers * kVectors);
  std::vector<std::int64_t> offsets(kUsers + 1);
  for (std::int64_t u = 0; u <= kUsers; ++u) offsets[u] = u * kVectors;
  std::vector<std::int32_t> rows(kUsers);
  std::iota(rows.begin(), rows.end(), 0);
  const PackedItems packed(items, item_terms, kItems, kDim);
  const ScoringVectors space{&packed, {users, vector_terms, offsets}, 1.0f};
  const std::vector<std::int64_t> none(kUsers + 1);
  const Lists seen{town.offsets, town.items}, test{none, {}};
  auto top = rank_with_vectors(space, rows, seen, test, 5, threads).top;
  const auto scores = score_users(space, rows, threads);
  const auto again = rank_with_scores(scores, kItems, rows, seen, test, 5, threads).top;
  CHECK(top == again);
  const auto drawn = draw_negatives(town.offsets, town.items, kItems, {}, rows, 4, 1, 2, 3, threads);
  top.insert(top.end(), drawn.begin(), drawn.end());
  for (const auto at : list_order(town.offsets, numbers(town.items.size(), 3), town.items, threads))
    top.push_back(static_cast<std::int32_t>(at));
  return top;
}

int race() {
  std::vector<int> shared(1);
#pragma omp parallel for num_threads(kThreads) schedule(dynamic)
  for (int i = 0; i < 100000; ++i) shared[0] += i;
  return shared[0] == 1 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "race") == 0) return race();
  const Town town;
  int n_settings = 0;
  for (const auto sampler : {Sampler::all, Sampler::two_stage, Sampler::hardest, Sampler::differentiable})
    for (const auto dcrs : {DcrsForm::off, DcrsForm::mean, DcrsForm::pairs})
      for (const auto optimizer : {Optimizer::sgd, Optimizer::adagrad, Optimizer::adam}) {
        CHECK(dpcml(town, sampler, dcrs, optimizer, kThreads) == dpcml(town, sampler, dcrs, optimizer, 1));
        ++n_settings;
      }
  CHECK(bpr(town, kThreads) == bpr(town, 1));
  CHECK(softmax_mf(town, kThreads) == softmax_mf(town, 1));
  CHECK(lists(town, kThreads) == lists(town, 1));
  std::printf("%d settings of 4 kernels: the same results with 1 and %d threads\n", n_settings + 3, kThreads);
}
