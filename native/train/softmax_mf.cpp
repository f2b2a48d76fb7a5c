#include "train/softmax_mf.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "core/parallel_errors.hpp"
#include "core/simd.hpp"

namespace tastespace {
namespace {

using simd::kLanes, simd::Vec;

// A tile of a product is kTall x kWide: as many registers as the processor has, less those of the factors.
constexpr int kTall = kLanes == 16 ? 8 : 4, kWide = 2 * kLanes;
constexpr std::int64_t kPart = 32;  // users whose logits are computed together: their columns stay in the cache
static_assert(kPart % kWide == 0 && kPart % kTall == 0);
constexpr float kBeta1 = 0.9f, kBeta2 = 0.99f, kEpsilon = 1e-8f;
constexpr std::int64_t kPrefetchDistance = 4;  // rows

std::int64_t padded(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// Numbers that begin at a cache line; zeros at first.
class Floats {
 public:
  explicit Floats(std::int64_t n) : held_(static_cast<std::size_t>(n) + 16) {
    void* at = held_.data();
    std::size_t space = held_.size() * sizeof(float);
    data_ = static_cast<float*>(std::align(64, n * sizeof(float), at, space));
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* at(std::int64_t k) { return data_ + k; }
  const float* at(std::int64_t k) const { return data_ + k; }

 private:
  std::vector<float> held_;
  float* data_;
};

// to[i * stride + n] = sum over k < depth of left[k * left_stride + i] * right[k * right_stride + n] for i < kTall and
// n < kWide
void multiply_tile(const float* left, std::int64_t left_stride, const float* right, std::int64_t right_stride,
                   std::int64_t depth, float* to, std::int64_t stride) {
  Vec sums[kTall][2];
#pragma GCC unroll 8
  for (int i = 0; i < kTall; ++i) sums[i][0] = sums[i][1] = Vec{};
  for (std::int64_t k = 0; k < depth; ++k, left += left_stride, right += right_stride) {
    const Vec a = simd::load<Vec>(right), b = simd::load<Vec>(right + kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTall; ++i) {
      sums[i][0] += left[i] * a;
      sums[i][1] += left[i] * b;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTall; ++i) {
    simd::store(to + i * stride, sums[i][0]);
    simd::store(to + i * stride + kLanes, sums[i][1]);
  }
}

float norm_of(const float* row, std::int64_t dim) { return std::sqrt(simd::dot(row, row, dim)); }

void add_scaled(float* to, float scale, const float* a, std::int64_t dim) {
  simd::for_each_part(dim, [=]<class V>(std::int64_t k, V) {
    simd::store(to + k, simd::load<V>(to + k) + simd::load<V>(a + k) * scale);
  });
}

// Unit vectors of a pool of items, in the two orders in which products read them.
class Pool {
 public:
  Pool(std::int64_t n, std::int64_t dim)
      : n_(n), dim_(dim), padded_(padded(n, kTall)), wide_(padded(dim, kWide)), tall_(padded_ * dim),
        panels_(padded_ * wide_) {}

  // Items number first ... first + kTall - 1.
  void load(std::span<const std::int32_t> items, const float* rows, const float* inverse_norms, std::int64_t first) {
    const std::int64_t n_panels = wide_ / kWide;
    for (std::int64_t i = first; i < std::min(n_, first + kTall); ++i) {
      const float* row = rows + items[i] * dim_;
      const float scale = inverse_norms ? inverse_norms[items[i]] : 1.0f;
      float* tall = tall_.at(first * dim_ + i - first);
      for (std::int64_t k = 0; k < dim_; ++k) tall[k * kTall] = row[k] * scale;
      for (std::int64_t p = 0; p < n_panels; ++p) {
        float* to = panels_.at((p * padded_ + i) * kWide);
        for (std::int64_t k = p * kWide; k < std::min(dim_, (p + 1) * kWide); ++k) to[k - p * kWide] = row[k] * scale;
      }
    }
  }

  std::int64_t n() const { return n_; }
  std::int64_t padded_n() const { return padded_; }
  std::int64_t dim() const { return dim_; }
  std::int64_t wide() const { return wide_; }  // dim, rounded up to whole panels
  const float* tall(std::int64_t first) const { return tall_.at(first * dim_); }         // [dim][kTall]
  const float* panel(std::int64_t p) const { return panels_.at(p * padded_ * kWide); }  // [padded_n][kWide]

 private:
  std::int64_t n_, dim_, padded_, wide_;
  Floats tall_, panels_;
};

// The softmax of up to kPart users, and the gradients of their losses; working memory of one thread.
class UserPart {
 public:
  UserPart(const SoftmaxData& data, const Pool& pool, float temperature)
      : data_(data), pool_(pool), temperature_(temperature), packed_(kPart * pool.dim()),
        weights_(pool.padded_n() * kPart), gradients_(kPart * pool.wide()), past_(pool.wide()) {}

  // `units` are unit vectors of the users, rows of `stride` numbers. Afterwards `gradient(u)` is the gradient with
  // respect to the unit vector of user number u, within its sphere's tangent, and `loss(u)` the loss.
  void compute(std::span<const std::int32_t> users, const float* units, std::int64_t stride, const float* item_rows,
               const float* inverse_norms) {
    const std::int64_t dim = pool_.dim(), wide = pool_.wide(), n = static_cast<std::int64_t>(users.size());
    const float inverse_temperature = 1.0f / temperature_;
    for (std::int64_t u = 0; u < kPart; ++u)  // [kPart / kWide][dim][kWide]
      for (std::int64_t k = 0; k < dim; ++k)
        *packed_.at(u / kWide * dim * kWide + k * kWide + u % kWide) =
            u < n ? units[u * stride + k] * inverse_temperature : 0.0f;
    for (std::int64_t j = 0; j < pool_.padded_n(); j += kTall)
      for (std::int64_t p = 0; p < n; p += kWide)  // columns beyond keep what they had, which counts of 0 make 0
        multiply_tile(pool_.tall(j), kTall, packed_.at(p * dim), kWide, dim, weights_.at(j * kPart + p), kPart);
    float counts[kPart] = {};
    for (std::int64_t u = 0; u < n; ++u)
      counts[u] = static_cast<float>(data_.offsets[users[u] + 1] - data_.offsets[users[u]]);
    for (std::int64_t p = 0; p < kPart; p += kLanes) normalize(p, counts + p);
    for (std::int64_t p = 0; p < wide / kWide; ++p)
      for (std::int64_t u = 0; u < n; u += kTall)
        multiply_tile(weights_.at(u), kPart, pool_.panel(p), kWide, pool_.padded_n(),
                      gradients_.at(u * wide + p * kWide), wide);
    for (std::int64_t u = 0; u < n; ++u) {
      const float* unit = units + u * stride;
      float* gradient = gradients_.at(u * wide);
      const float of_past = add_past(users[u], unit, gradient, item_rows, inverse_norms);
      losses_[u] -= of_past * inverse_temperature;
      add_scaled(gradient, -simd::dot(gradient, unit, dim), unit, dim);
    }
  }

  float* gradient(std::int64_t u) { return gradients_.at(u * pool_.wide()); }
  double loss(std::int64_t u) const { return losses_[u]; }
  // The weight of each item of the pool in the gradient of each user, [padded_n][kPart].
  const float* weights() const { return weights_.at(0); }

 private:
  // From logits of kLanes users to softmax times count over temperature.
  void normalize(std::int64_t p, const float* counts) {
    const std::int64_t n = pool_.n();
    float* column = weights_.at(p);
    Vec most = simd::load<Vec>(column), sum{};
    for (std::int64_t j = 1; j < n; ++j) {
      const Vec one = simd::load<Vec>(column + j * kPart);
      most = one > most ? one : most;
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const Vec one = simd::exp_of_nonpositive(simd::load<Vec>(column + j * kPart) - most);
      simd::store(column + j * kPart, one);
      sum += one;
    }
    const Vec scale = simd::load<Vec>(counts) / (sum * temperature_);
    for (std::int64_t j = 0; j < n; ++j) simd::store(column + j * kPart, simd::load<Vec>(column + j * kPart) * scale);
    for (std::int64_t j = n; j < pool_.padded_n(); ++j) simd::store(column + j * kPart, Vec{});
    for (int u = 0; u < kLanes; ++u)
      losses_[p + u] = static_cast<double>(counts[u]) * (std::log(static_cast<double>(sum[u])) + most[u]);
  }

  // gradient -= sum of the unit vectors of the user's items / temperature; gives the inner product of sum and unit.
  float add_past(std::int32_t user, const float* unit, float* gradient, const float* item_rows,
                 const float* inverse_norms) {
    const std::int64_t dim = pool_.dim(), last = data_.offsets[user + 1];
    std::fill(past_.at(0), past_.at(dim), 0.0f);
    for (std::int64_t e = data_.offsets[user]; e < last; ++e) {
      if (e + kPrefetchDistance < last)
        simd::prefetch(item_rows + data_.positives[e + kPrefetchDistance] * dim, dim);
      const std::int32_t item = data_.positives[e];
      add_scaled(past_.at(0), inverse_norms ? inverse_norms[item] : 1.0f, item_rows + item * dim, dim);
    }
    add_scaled(gradient, -1.0f / temperature_, past_.at(0), dim);
    return simd::dot(past_.at(0), unit, dim);
  }

  const SoftmaxData& data_;
  const Pool& pool_;
  float temperature_;
  Floats packed_, weights_, gradients_, past_;
  double losses_[kPart] = {};
};

// Which users and places of the pool an item of the batch belongs to.
struct Touched {
  std::vector<std::int32_t> items;    // distinct, in order of appearance
  std::vector<std::int64_t> starts;   // sources of items[t] are sources[starts[t]] ... sources[starts[t + 1] - 1]
  std::vector<std::int32_t> sources;  // a user's number in the batch, or ~place in the pool
  std::vector<std::int32_t> place;    // of each item of the catalog in `items`, -1: not of this batch

  void find(const SoftmaxData& data, std::span<const std::int32_t> users, std::span<const std::int32_t> pool) {
    for (const std::int32_t item : items) place[item] = -1;
    items.clear();
    starts.assign(1, 0);  // first the number of sources of each item, one place on
    const auto for_each = [&](auto&& use) {
      for (std::size_t j = 0; j < pool.size(); ++j) use(pool[j], ~static_cast<std::int32_t>(j));
      for (std::size_t u = 0; u < users.size(); ++u)
        for (std::int64_t e = data.offsets[users[u]]; e < data.offsets[users[u] + 1]; ++e)
          use(data.positives[e], static_cast<std::int32_t>(u));
    };
    for_each([&](std::int32_t item, std::int32_t) {
      if (place[item] < 0) {
        place[item] = static_cast<std::int32_t>(items.size());
        items.push_back(item);
        starts.push_back(0);
      }
      ++starts[place[item] + 1];
    });
    for (std::size_t t = 0; t < items.size(); ++t) starts[t + 1] += starts[t];
    sources.resize(starts.back());
    next_.assign(starts.begin(), starts.end() - 1);
    for_each([&](std::int32_t item, std::int32_t source) { sources[next_[place[item]]++] = source; });
  }

 private:
  std::vector<std::int64_t> next_;
};

// A batch: what its users' phase leaves for its items' phase.
class Batches {
 public:
  Batches(const SoftmaxData& data, SoftmaxState& state, const SoftmaxSettings& settings, std::int64_t n_negatives,
          std::int64_t most_users)
      : data_(data), state_(state), settings_(settings), pool_(n_negatives, state.dim),
        padded_users_(padded(most_users, kPart)), units_(padded_users_ * pool_.wide()),
        panels_(padded_users_ * pool_.wide()), weights_(padded_users_ * pool_.padded_n()),
        pool_gradients_(pool_.padded_n() * pool_.wide()),
        inverse_norms_(state.items.second.size()) {
    touched.place.assign(inverse_norms_.size(), -1);
  }

  void begin(std::span<const std::int32_t> users, std::span<const std::int32_t> items, std::int64_t step) {
    users_ = users;
    items_ = items;
    // Bias of Adam's moments, of all rows alike: those that are seldom in a batch start with small steps.
    const auto t = static_cast<double>(step + 1);
    first_scale_ = static_cast<float>(settings_.learning_rate / (1.0 - std::pow(kBeta1, t)));
    second_scale_ = static_cast<float>(1.0 / (1.0 - std::pow(kBeta2, t)));
  }

  void find_inverse_norm(std::int64_t item) {
    inverse_norms_[item] = 1.0f / norm_of(state_.items.rows.data() + item * state_.dim, state_.dim);
  }

  void load_pool(std::int64_t first) { pool_.load(items_, state_.items.rows.data(), inverse_norms_.data(), first); }

  // The users number first ... first + kPart - 1: softmax, gradients, their step. Writes their losses.
  void train_users(std::int64_t first, UserPart& part, double* losses) {
    const std::int64_t dim = state_.dim, wide = pool_.wide();
    const std::int64_t n = std::min<std::int64_t>(kPart, static_cast<std::int64_t>(users_.size()) - first);
    float norms[kPart];
    for (std::int64_t u = 0; u < kPart; ++u) {
      float* unit = units_.at((first + u) * wide);
      std::fill(unit, unit + wide, 0.0f);
      if (u < n) {
        const float* row = state_.users.rows.data() + users_[first + u] * dim;
        norms[u] = norm_of(row, dim);
        add_scaled(unit, 1.0f / norms[u], row, dim);
      }
      for (std::int64_t k = 0; k < wide; k += kWide)
        std::copy_n(unit + k, kWide, panels_.at(k * padded_users_ + (first + u) * kWide));
    }
    part.compute(users_.subspan(first, n), units_.at(first * wide), wide, state_.items.rows.data(),
                 inverse_norms_.data());
    for (std::int64_t j = 0; j < pool_.padded_n(); j += kTall) {  // [padded_n / kTall][padded_users][kTall]
      float* to = weights_.at(j * padded_users_ + first * kTall);
      for (std::int64_t u = 0; u < kPart; ++u)
        for (int i = 0; i < kTall; ++i) to[u * kTall + i] = part.weights()[(j + i) * kPart + u];
    }
    for (std::int64_t u = 0; u < n; ++u) {
      losses[first + u] = part.loss(u);
      simd::scale(part.gradient(u), 1.0f / norms[u], dim);
      step(state_.users, users_[first + u], part.gradient(u));
    }
  }

  // Gradients of the places j ... j + kTall - 1 of the pool.
  void sum_pool(std::int64_t j) {
    const std::int64_t depth = padded(static_cast<std::int64_t>(users_.size()), kPart), wide = pool_.wide();
    for (std::int64_t k = 0; k < wide; k += kWide)
      multiply_tile(weights_.at(j * padded_users_), kTall, panels_.at(k * padded_users_), kWide, depth,
                    pool_gradients_.at(j * wide + k), wide);
  }

  // The gradient of the item number t of those touched, and its step; `gradient` is working memory.
  void train_item(std::int64_t t, float* gradient) {
    const std::int64_t dim = state_.dim, wide = pool_.wide(), last = touched.starts[t + 1];
    const std::int32_t item = touched.items[t];
    const float* row = state_.items.rows.data() + item * dim;
    std::fill(gradient, gradient + dim, 0.0f);
    for (std::int64_t s = touched.starts[t]; s < last; ++s) {
      const std::int32_t source = touched.sources[s];
      source < 0 ? add_scaled(gradient, 1.0f, pool_gradients_.at(~source * wide), dim)
                 : add_scaled(gradient, -1.0f / settings_.temperature, units_.at(source * wide), dim);
    }
    const float inverse_norm = inverse_norms_[item];
    add_scaled(gradient, -simd::dot(gradient, row, dim) * inverse_norm * inverse_norm, row, dim);
    simd::scale(gradient, inverse_norm, dim);
    step(state_.items, item, gradient);
    find_inverse_norm(item);
  }

  void prefetch_item(std::int64_t t) const {
    if (t >= static_cast<std::int64_t>(touched.items.size())) return;
    const std::int64_t at = touched.items[t] * state_.dim;
    simd::prefetch(state_.items.rows.data() + at, state_.dim);
    simd::prefetch(state_.items.first.data() + at, state_.dim);
  }

  const Pool& pool() const { return pool_; }
  Touched touched;

 private:
  void step(SoftmaxSide& side, std::int64_t row, const float* gradient) const {
    const std::int64_t dim = state_.dim;
    float *x = side.rows.data() + row * dim, *first = side.first.data() + row * dim, &second = side.second[row];
    second = kBeta2 * second + (1.0f - kBeta2) * simd::dot(gradient, gradient, dim) / static_cast<float>(dim);
    const float rate = first_scale_ / (std::sqrt(second * second_scale_) + kEpsilon);
    simd::for_each_part(dim, [=]<class V>(std::int64_t k, V) {
      const V mean = simd::load<V>(first + k) * kBeta1 + simd::load<V>(gradient + k) * (1.0f - kBeta1);
      simd::store(first + k, mean);
      simd::store(x + k, simd::load<V>(x + k) - mean * rate);
    });
  }

  const SoftmaxData& data_;
  SoftmaxState& state_;
  const SoftmaxSettings& settings_;
  Pool pool_;
  std::int64_t padded_users_;
  Floats units_;           // [padded_users][wide]
  Floats panels_;          // the same in panels, [wide / kWide][padded_users][kWide]
  Floats weights_;         // [padded_n / kTall][padded_users][kTall]
  Floats pool_gradients_;  // [padded_n][wide]
  std::vector<float> inverse_norms_;
  std::span<const std::int32_t> users_, items_;
  float first_scale_ = 0.0f, second_scale_ = 0.0f;
};

// Gradient descent on the sphere with the step lengths of Barzilai and Borwein, which need no second evaluation.
class Descent {
 public:
  explicit Descent(std::int64_t dim) : before_(dim), gradient_before_(dim) {}

  void move(float* unit, const float* gradient, int step) {
    const auto dim = static_cast<std::int64_t>(before_.size());
    float length = kFirst;
    if (step > 0) {
      simd::difference(before_.data(), 1.0f, unit, before_.data(), dim);
      simd::difference(gradient_before_.data(), 1.0f, gradient, gradient_before_.data(), dim);
      const float bend = simd::dot(before_.data(), gradient_before_.data(), dim);
      const float squared = simd::dot(before_.data(), before_.data(), dim);
      length = bend * kLongest > squared ? std::max(kShortest, squared / bend) : kLongest;
    }
    std::copy_n(unit, dim, before_.data());
    std::copy_n(gradient, dim, gradient_before_.data());
    add_scaled(unit, -length, gradient, dim);
    simd::scale(unit, 1.0f / norm_of(unit, dim), dim);
  }

 private:
  static constexpr float kFirst = 0.5f, kShortest = 0.05f, kLongest = 10.0f;
  std::vector<float> before_, gradient_before_;
};

}  // namespace

SoftmaxTotals train_softmax_mf(const SoftmaxData& data, SoftmaxState& state, const SoftmaxSettings& settings,
                               std::span<const std::int32_t> users, std::span<const std::int32_t> pools,
                               std::int64_t n_negatives, std::int64_t first_step, int threads, Interrupt& interrupt) {
  const auto n_users = static_cast<std::int64_t>(users.size()), size = settings.batch_size;
  const auto n_items = static_cast<std::int64_t>(state.items.second.size());
  Batches batch(data, state, settings, n_negatives, std::min(size, n_users));
  std::vector<double> losses(std::min(size, n_users));
  SoftmaxTotals totals;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<UserPart> part;
    std::vector<float> gradient;
    errors.run([&] {
      part.emplace(data, batch.pool(), settings.temperature);
      gradient.resize(state.dim);
    });
#pragma omp for schedule(static)
    for (std::int64_t item = 0; item < n_items; ++item) batch.find_inverse_norm(item);
    for (std::int64_t first = 0; first < n_users; first += size) {
      const std::int64_t n = std::min(size, n_users - first);
      const auto own = users.subspan(first, n), pool = pools.subspan(first / size * n_negatives, n_negatives);
#pragma omp single
      batch.begin(own, pool, first_step + first / size);
#pragma omp single nowait
      errors.run([&] { batch.touched.find(data, own, pool); });
#pragma omp for schedule(dynamic, 4)
      for (std::int64_t j = 0; j < n_negatives; j += kTall) batch.load_pool(j);
#pragma omp for schedule(dynamic)
      for (std::int64_t u = 0; u < n; u += kPart)
        errors.run([&] {
          if (!interrupt.requested()) batch.train_users(u, *part, losses.data());
        });
#pragma omp for schedule(dynamic, 4)
      for (std::int64_t j = 0; j < n_negatives; j += kTall)
        errors.run([&] {
          if (!interrupt.requested()) batch.sum_pool(j);
        });
#pragma omp for schedule(dynamic, 16)
      for (std::int64_t t = 0; t < static_cast<std::int64_t>(batch.touched.items.size()); ++t)
        errors.run([&] {
          if (interrupt.requested()) return;
          batch.prefetch_item(t + 1);
          batch.train_item(t, gradient.data());
        });
#pragma omp single
      for (std::int64_t u = 0; u < n; ++u) {
        totals.loss += losses[u];
        totals.n_positives += data.offsets[own[u] + 1] - data.offsets[own[u]];
      }
    }
  }
  errors.rethrow();
  return totals;
}

void fold_in_softmax_mf(const SoftmaxData& data, std::span<const float> item_vectors, std::int64_t dim,
                        std::span<const std::int32_t> pool, float temperature, int n_steps, std::span<float> vectors,
                        int threads, Interrupt& interrupt) {
  std::vector<std::int32_t> users;
  for (std::size_t u = 0; u + 1 < data.offsets.size(); ++u)
    if (data.offsets[u + 1] > data.offsets[u]) users.push_back(static_cast<std::int32_t>(u));
  const auto n_users = static_cast<std::int64_t>(users.size());
  Pool packed(static_cast<std::int64_t>(pool.size()), dim);
  for (std::int64_t j = 0; j < packed.n(); j += kTall) packed.load(pool, item_vectors.data(), nullptr, j);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<UserPart> part;
    std::vector<Descent> descents;
    errors.run([&] {
      part.emplace(data, packed, temperature);
      descents.assign(kPart, Descent(dim));
    });
#pragma omp for schedule(dynamic)
    for (std::int64_t first = 0; first < n_users; first += kPart)
      errors.run([&] {
        const std::int64_t n = std::min(kPart, n_users - first);
        const std::span<const std::int32_t> own(users.data() + first, n);
        std::vector<float> units(n * dim);
        for (std::int64_t u = 0; u < n; ++u) std::copy_n(vectors.data() + own[u] * dim, dim, units.data() + u * dim);
        for (int step = 0; step < n_steps && !interrupt.requested(); ++step) {
          part->compute(own, units.data(), dim, item_vectors.data(), nullptr);
          for (std::int64_t u = 0; u < n; ++u) {
            const auto count = static_cast<float>(data.offsets[own[u] + 1] - data.offsets[own[u]]);
            simd::scale(part->gradient(u), temperature / count, dim);
            descents[u].move(units.data() + u * dim, part->gradient(u), step);
          }
        }
        for (std::int64_t u = 0; u < n; ++u) std::copy_n(units.data() + u * dim, dim, vectors.data() + own[u] * dim);
      });
  }
  errors.rethrow();
}

}  // namespace tastespace
