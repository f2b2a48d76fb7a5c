#include "train/anchors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr std::size_t kPrefetchDistance = 4;  // items between the prefetch of a row and its use

// to += a
void add(float* to, const float* a, std::int64_t dim) {
  simd::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
    simd::store(to + k, simd::load<V>(to + k) + simd::load<V>(a + k));
  });
}

// Assigns the positives of one user at a time; holds working memory, so every thread needs its own.
class UserAssigner {
 public:
  UserAssigner(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings)
      : data_(data), state_(state), settings_(settings), anchors_(state.anchors), dim_(state.dim) {}

  void refresh(std::int64_t user, std::int64_t iterations) {
    const std::int64_t start = data_.offsets[user], n = data_.offsets[user + 1] - start;
    items_ = data_.positives.subspan(start, n);
    assigned_ = anchors_.assignments.subspan(start, n);
    first_ = data_.vector_offsets[user];
    n_vectors_ = settings_.first_vector_only ? 1 : data_.vector_offsets[user + 1] - first_;
    if (n == 0) return add_up();
    const bool fresh = std::any_of(assigned_.begin(), assigned_.end(), [&](std::int32_t c) {
      return c < 0 || c >= n_vectors_;
    });
    vectors_.resize(n_vectors_ * dim_);
    to_own_.resize(n);
    if (fresh) {
      choose_distant_items();
      assign();
    } else {
      add_up();
    }
    for (std::int64_t i = 0; i < iterations; ++i) {
      for (std::int64_t c = 0; c < n_vectors_; ++c)
        anchored_vector(state_.user_vectors.data() + (first_ + c) * dim_, sum(c), count(c), nullptr, settings_, dim_,
                        vectors_.data() + c * dim_);
      assign();
    }
  }

 private:
  const float* item(std::size_t i) const { return anchors_.snapshot.data() + items_[i] * dim_; }
  float* sum(std::int64_t c) const { return anchors_.sums.data() + (first_ + c) * dim_; }
  std::int32_t& count(std::int64_t c) const { return anchors_.counts[first_ + c]; }

  void clear_sums() {
    std::fill_n(sum(0), n_vectors_ * dim_, 0.0f);
    std::fill_n(&count(0), n_vectors_, 0);
  }

  void add_to_sum(std::size_t i) {
    add(sum(assigned_[i]), item(i), dim_);
    ++count(assigned_[i]);
  }

  void add_up() {
    clear_sums();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (i + kPrefetchDistance < items_.size()) simd::prefetch(item(i + kPrefetchDistance), dim_);
      add_to_sum(i);
    }
  }

  // Vectors at items: the first at the item nearest to the mean, each next one at the item farthest from those
  // before. Vectors beyond the number of items do not exist.
  void choose_distant_items() {
    const std::size_t n = items_.size();
    std::fill(vectors_.begin(), vectors_.end(), std::numeric_limits<float>::infinity());
    std::vector<float> mean(dim_, 0.0f);
    for (std::size_t i = 0; i < n; ++i) add(mean.data(), item(i), dim_);
    simd::scale(mean.data(), 1.0f / static_cast<float>(n), dim_);
    std::size_t chosen = 0;
    float nearest = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < n; ++i) {
      const float distance = simd::squared_distance(item(i), mean.data(), dim_);
      if (distance < nearest) nearest = distance, chosen = i;
    }
    std::fill(to_own_.begin(), to_own_.end(), std::numeric_limits<float>::infinity());
    const std::int64_t n_chosen = std::min(n_vectors_, static_cast<std::int64_t>(n));
    for (std::int64_t c = 0; c < n_chosen; ++c) {
      std::copy_n(item(chosen), dim_, vectors_.begin() + c * dim_);
      for (std::size_t i = 0; i < n; ++i)
        to_own_[i] = std::min(to_own_[i], simd::squared_distance(item(i), vectors_.data() + c * dim_, dim_));
      chosen = std::max_element(to_own_.begin(), to_own_.end()) - to_own_.begin();
    }
  }

  // Every item to the nearest vector; sums and counts with it.
  void assign() {
    clear_sums();
    distances_.resize(n_vectors_);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (i + kPrefetchDistance < items_.size()) simd::prefetch(item(i + kPrefetchDistance), dim_);
      simd::squared_distances(vectors_.data(), n_vectors_, item(i), dim_, distances_.data());
      const auto nearest = std::min_element(distances_.begin(), distances_.end());
      to_own_[i] = *nearest;
      assigned_[i] = static_cast<std::int32_t>(nearest - distances_.begin());
      add_to_sum(i);
    }
    if (fill_interests_without_items()) add_up();
  }

  // Gives an interest without items the item that is farthest from its own vector; true where one moved.
  bool fill_interests_without_items() {
    bool moved = false;
    for (std::int64_t c = 0; c < n_vectors_; ++c) {
      if (count(c) > 0) continue;
      std::size_t farthest = items_.size();
      for (std::size_t i = 0; i < items_.size(); ++i)
        if (count(assigned_[i]) > 1 && (farthest == items_.size() || to_own_[i] > to_own_[farthest])) farthest = i;
      if (farthest == items_.size()) break;  // fewer items than interests
      --count(assigned_[farthest]);
      assigned_[farthest] = static_cast<std::int32_t>(c);
      to_own_[farthest] = 0.0f;
      count(c) = 1;
      moved = true;
    }
    return moved;
  }

  const DpcmlData& data_;
  const DpcmlState& state_;
  const DpcmlSettings& settings_;
  const AnchorState& anchors_;
  std::int64_t dim_;
  std::span<const std::int32_t> items_;  // of the user
  std::span<std::int32_t> assigned_;     // and their interests
  std::int64_t first_ = 0, n_vectors_ = 0;
  std::vector<float> vectors_;    // of the user's interests
  std::vector<float> to_own_;     // squared distance of each item to the vector of its interest
  std::vector<float> distances_;  // of one item to all vectors
};

// Copies for the interests without items: in turn, the vectors of those with items.
void repeat_rows(const std::int32_t* counts, std::int64_t n_vectors, std::int64_t dim, float* rows) {
  std::vector<std::int64_t> with_items;
  for (std::int64_t c = 0; c < n_vectors; ++c)
    if (counts[c] > 0) with_items.push_back(c);
  if (with_items.empty()) return;
  std::size_t next = 0;
  for (std::int64_t c = 0; c < n_vectors; ++c)
    if (counts[c] == 0) std::copy_n(rows + with_items[next++ % with_items.size()] * dim, dim, rows + c * dim);
}

}  // namespace

AnchoredVector anchored_vector(const float* free, const float* sum, std::int64_t n, const float* left_out,
                               const DpcmlSettings& settings, std::int64_t dim, float* out) {
  const float anchor = settings.anchor;
  if (left_out) --n;
  float free_weight = 1.0f - anchor;
  if (n > 0) {
    const float weight = anchor / static_cast<float>(n);
    simd::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
      V items = simd::load<V>(sum + k);
      if (left_out) items -= simd::load<V>(left_out + k);
      // With anchor = 1 the free vector has no part in it, not even as a term of zero.
      simd::store(out + k, anchor < 1.0f ? items * weight + simd::load<V>(free + k) * free_weight : items * weight);
    });
  } else if (anchor < 1.0f) {
    free_weight = 1.0f;
    std::copy_n(free, dim, out);
    // A free vector is in the ball already. At its border, rounding would decide whether the gradient is projected.
    if (settings.user_region == Region::ball) return {true, free_weight, 0.0f};
  } else {
    std::fill_n(out, dim, std::numeric_limits<float>::infinity());
    return {false, 0.0f, 0.0f};
  }
  if (settings.user_region == Region::unbounded) return {true, free_weight, 0.0f};
  const float norm = std::sqrt(simd::dot(out, out, dim));
  const bool outside = settings.user_region == Region::ball ? norm > settings.radius : norm > 0.0f;
  if (!outside) return {true, free_weight, 0.0f};
  const float shrinkage = settings.radius / norm;
  simd::scale(out, shrinkage, dim);
  return {true, free_weight, shrinkage};
}

void to_free_gradient(const AnchoredVector& anchored, const float* vector, float radius, std::int64_t dim,
                      float* gradient) {
  if (anchored.shrinkage == 0.0f) return simd::scale(gradient, anchored.free_weight, dim);
  // J = radius / |z| * (I - e e^T / radius^2)
  const float along = simd::dot(vector, gradient, dim) / (radius * radius);
  const float factor = anchored.free_weight * anchored.shrinkage;
  simd::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
    simd::store(gradient + k, (simd::load<V>(gradient + k) - simd::load<V>(vector + k) * along) * factor);
  });
}

void refresh_anchors(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::int64_t iterations,
                     int threads) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
  std::copy(state.item_vectors.begin(), state.item_vectors.end(), state.anchors.snapshot.begin());
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<UserAssigner> assigner;
    errors.run([&] { assigner.emplace(data, state, settings); });
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t user = 0; user < n_users; ++user) errors.run([&] { assigner->refresh(user, iterations); });
  }
  errors.rethrow();
}

void anchored_user_vectors(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings,
                           bool repeat_vectors, std::span<float> out, int threads) {
  const auto n_users = static_cast<std::int64_t>(data.offsets.size()) - 1;
  const AnchorState& anchors = state.anchors;
  DpcmlSettings free_only = settings;
  free_only.anchor = 0.0f;
  ParallelErrors errors;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 64)
  for (std::int64_t user = 0; user < n_users; ++user)
    errors.run([&] {
      const std::int64_t first = data.vector_offsets[user], n_vectors = data.vector_offsets[user + 1] - first;
      const bool has_items = data.offsets[user] < data.offsets[user + 1];
      for (std::int64_t row = first; row < first + n_vectors; ++row)
        anchored_vector(state.user_vectors.data() + row * state.dim, anchors.sums.data() + row * state.dim,
                        anchors.counts[row], nullptr, has_items ? settings : free_only, state.dim,
                        out.data() + row * state.dim);
      if (repeat_vectors || settings.anchor == 1.0f)
        repeat_rows(anchors.counts.data() + first, n_vectors, state.dim, out.data() + first * state.dim);
    });
  errors.rethrow();
}

}  // namespace tastespace
