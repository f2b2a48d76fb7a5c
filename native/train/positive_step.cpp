#include "train/positive_step.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

namespace tastespace {
namespace {

constexpr std::int64_t kVectorsAtOnce = 8;  // vectors of a user compared with items in one call
constexpr std::int64_t kRowsAhead = 32;     // item vectors prefetched before their distances are computed
constexpr float kLeastShare = 1e-4f;        // of a smooth minimum: vectors with less of it get no gradient

// Items compared with N vectors at once: as many as the registers hold sums.
template <int N>
constexpr int kItemsAtOnce = simd::kLanes == 16 ? (N <= 5 ? 4 : 2) : (N <= 2 ? 4 : N <= 5 ? 2 : 1);

// A number that orders distances, and equal ones by index: which is smallest cannot be predicted, and the minimum of
// whole numbers is found without branches. The bits of floats that are not negative have the order of their values; NaN
// is above infinity.
std::uint64_t ordered(float distance, std::int32_t index) {
  return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(distance)) << 32 | static_cast<std::uint32_t>(index);
}
float value_of(std::uint64_t ordered) { return std::bit_cast<float>(static_cast<std::uint32_t>(ordered >> 32)); }

}  // namespace

StepComputer::StepComputer(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings)
    : data_(data), state_(state), settings_(settings), negatives_(state.n_items(), data.alias) {}

void StepComputer::set_user(std::int64_t user) {
  user_ = user;
  first_ = data_.vector_offsets[user];
  n_vectors_ = settings_.first_vector_only ? 1 : data_.vector_offsets[user + 1] - first_;
  if (settings_.anchor == 0.0f) vectors_ = state_.user_vectors.data() + first_ * state_.dim;
}

bool StepComputer::find_vectors(std::int64_t positive_index) {
  if (settings_.anchor == 0.0f) return true;
  const std::int64_t dim = state_.dim;
  const float* free = state_.user_vectors.data() + first_ * dim;
  const AnchorState& anchors = state_.anchors;
  const std::int64_t own = anchors.assignments[positive_index];
  const float* positive = anchors.snapshot.data() + data_.positives[positive_index] * dim;
  anchored_.resize(n_vectors_ * dim);
  from_free_.resize(n_vectors_);
  bool any = false;
  for (std::int64_t c = 0; c < n_vectors_; ++c) {
    from_free_[c] = anchored_vector(free + c * dim, anchors.sums.data() + (first_ + c) * dim,
                                    anchors.counts[first_ + c], c == own ? positive : nullptr, settings_, dim,
                                    anchored_.data() + c * dim);
    any = any || from_free_[c].exists;
  }
  vectors_ = anchored_.data();
  return any;
}

template <int N>
void StepComputer::find_nearest_of(std::int64_t first, std::int64_t n) {
  constexpr int kItems = kItemsAtOnce<N>;
  const float* all = state_.item_vectors.data();
  const std::int32_t* items = items_.data() + first;
  Nearest* out = distances_.data() + first;
  float* kept = is_smooth() ? shares_.data() + first * N : nullptr;
  const float* rows[kItems];
  float distances[N * kItems];
  for (std::int64_t from = 0; from < n; from += kItems) {
    for (int m = 0; m < kItems; ++m) rows[m] = all + items[std::min(from + m, n - 1)] * state_.dim;
    for (std::int64_t next = from + kRowsAhead; next < std::min(n, from + kRowsAhead + kItems); ++next)
      simd::prefetch(all + items[next] * state_.dim, state_.dim);
    simd::squared_distances<N, kItems>(vectors_, rows, state_.dim, distances);
    for (int m = 0; m < kItems && from + m < n; ++m) {
      std::uint64_t best = ordered(INFINITY, 0);
      for (int c = 0; c < N; ++c) best = std::min(best, ordered(distances[m * N + c], c));
      out[from + m] = {value_of(best) * settings_.distance_scale, static_cast<std::int32_t>(best)};
      if (kept != nullptr) std::copy_n(distances + m * N, N, kept + (from + m) * N);
    }
  }
}

void StepComputer::find_nearest(std::int64_t first, std::int64_t n) {
  switch (n_vectors_) {
    case 1: return find_nearest_of<1>(first, n);
    case 2: return find_nearest_of<2>(first, n);
    case 3: return find_nearest_of<3>(first, n);
    case 4: return find_nearest_of<4>(first, n);
    case 5: return find_nearest_of<5>(first, n);
    case 6: return find_nearest_of<6>(first, n);
    case 7: return find_nearest_of<7>(first, n);
    case 8: return find_nearest_of<8>(first, n);
    default: break;
  }
  float distances[kVectorsAtOnce];
  for (std::int64_t i = first; i < first + n; ++i) {
    const float* v = state_.item_vectors.data() + items_[i] * state_.dim;
    Nearest nearest{INFINITY, 0};
    for (std::int64_t from = 0; from < n_vectors_; from += kVectorsAtOnce) {
      const std::int64_t n_here = std::min(kVectorsAtOnce, n_vectors_ - from);
      simd::squared_distances(vectors_ + from * state_.dim, n_here, v, state_.dim, distances);
      for (std::int64_t c = 0; c < n_here; ++c)
        if (distances[c] < nearest.distance) nearest = {distances[c], static_cast<std::int32_t>(from + c)};
      if (is_smooth()) std::copy_n(distances, n_here, shares_.data() + i * n_vectors_ + from);
    }
    distances_[i] = {nearest.distance * settings_.distance_scale, nearest.vector};
  }
}

void StepComputer::draw(std::int64_t user, CounterRng rng, PositiveStep& step) {
  const std::int64_t begin = data_.offsets[user], n_taken = data_.offsets[user + 1] - begin;
  negatives_.draw(data_.positives.subspan(begin, n_taken), data_.index.filter(user, n_taken), settings_.n_negatives, rng,
                  step.negatives);
}

void StepComputer::prefetch_items(std::int64_t positive_index, const PositiveStep& step) const {
  const std::int64_t dim = state_.dim;
  const std::int32_t positive_item = data_.positives[positive_index];
  simd::prefetch(state_.item_vectors.data() + positive_item * dim, dim);
  if (settings_.anchor > 0.0f) simd::prefetch(state_.anchors.snapshot.data() + positive_item * dim, dim);
  const auto n = std::min(kRowsAhead, static_cast<std::int64_t>(step.negatives.size()));
  for (std::int64_t k = 0; k < n; ++k) simd::prefetch(state_.item_vectors.data() + step.negatives[k] * dim, dim);
}

bool StepComputer::compute(std::int64_t user, std::int64_t positive_index, PositiveStep& step) {
  set_user(user);
  const std::int32_t positive_item = data_.positives[positive_index];
  step.pair_gradients.clear();
  step.item_gradients.clear();
  step.mixed.clear();
  step.loss = step.dcrs = 0.0;
  step.gamma_slope = 0.0f;
  if (step.negatives.empty()) return false;
  if (!find_vectors(positive_index)) {
    step.negatives.clear();
    return false;
  }

  const auto n_drawn = static_cast<std::int64_t>(step.negatives.size());
  distances_.resize(n_drawn + 1);
  items_.resize(n_drawn + 1);
  std::copy(step.negatives.begin(), step.negatives.end(), items_.begin());
  items_[n_drawn] = positive_item;
  if (is_smooth()) shares_.resize((n_drawn + 1) * n_vectors_);
  if (settings_.sampler == Sampler::two_stage) {
    find_nearest(n_drawn, 1);
  } else {
    find_nearest(0, n_drawn + 1);
  }
  const Nearest nearest_to_positive = distances_[n_drawn];
  distances_.resize(n_drawn);

  const float weight = data_.loss_weight[user];
  const std::int64_t wanted = settings_.n_hardest > 0  ? settings_.n_hardest
                              : data_.n_beta.empty()   ? n_drawn
                                                       : data_.n_beta[user];
  const std::int64_t n_hardest = std::min(wanted, n_drawn);
  switch (settings_.sampler) {
    case Sampler::all: use_all(step, nearest_to_positive, positive_item, weight); break;
    case Sampler::two_stage: use_two_stage(step, nearest_to_positive, positive_item, weight, n_hardest); break;
    case Sampler::hardest: use_hardest(step, nearest_to_positive, positive_item, weight, n_hardest); break;
    case Sampler::differentiable:
      use_threshold(step, nearest_to_positive, positive_item, weight, positive_index, n_hardest);
      break;
  }
  return true;
}

void StepComputer::add_hinge(PositiveStep& step, std::span<const std::int32_t> chosen, Nearest nearest_to_positive,
                             std::int32_t positive_item, float weight) {
  const float weight_per_negative = weight / static_cast<float>(chosen.size());
  if (is_smooth()) return add_smooth_hinge(step, chosen, weight_per_negative);
  std::int64_t active = 0;
  double loss = 0.0;
  step.pair_gradients.push_back({first_ + nearest_to_positive.vector, positive_item, 0.0f});
  for (const std::int32_t k : chosen) {
    const float violation = settings_.margin + nearest_to_positive.distance - distances_[k].distance;
    if (violation <= 0.0f) continue;
    ++active;
    loss += violation;
    step.pair_gradients.push_back(
        {first_ + distances_[k].vector, step.negatives[k], -weight_per_negative * settings_.distance_scale});
  }
  step.loss = loss * weight_per_negative;
  step.pair_gradients.front().derivative = weight_per_negative * settings_.distance_scale * static_cast<float>(active);
  if (active == 0) step.pair_gradients.clear();
}

float StepComputer::smooth_distance(std::int64_t place) {
  float* shares = shares_.data() + place * n_vectors_;  // squared distances as yet
  const float least = *std::min_element(shares, shares + n_vectors_);
  const float factor = settings_.distance_scale / settings_.temperature;
  float sum = 0.0f;
  for (std::int64_t c = 0; c < n_vectors_; ++c) {
    shares[c] = std::exp((least - shares[c]) * factor);
    sum += shares[c];
  }
  for (std::int64_t c = 0; c < n_vectors_; ++c) shares[c] /= sum;
  return settings_.distance_scale * least - settings_.temperature * std::log(sum / static_cast<float>(n_vectors_));
}

void StepComputer::add_smooth_pair(PositiveStep& step, std::int64_t place, float derivative) {
  const float* shares = shares_.data() + place * n_vectors_;
  const std::int64_t dim = state_.dim;
  const auto row = static_cast<std::int64_t>(step.item_gradients.size());
  step.item_gradients.push_back({row, items_[place], derivative});
  step.mixed.resize((row + 1) * dim);
  float* mixed = step.mixed.data() + row * dim;
  simd::for_each_part(dim, [&]<class V>(std::int64_t k, V) {
    V sum{};
    for (std::int64_t c = 0; c < n_vectors_; ++c)  // with anchor = 1 a vector without items is infinite
      if (shares[c] > 0.0f) sum += simd::load<V>(vectors_ + c * dim + k) * shares[c];
    simd::store(mixed + k, sum);
  });
  for (std::int64_t c = 0; c < n_vectors_; ++c)
    if (shares[c] >= kLeastShare) step.pair_gradients.push_back({first_ + c, items_[place], derivative * shares[c]});
}

void StepComputer::add_smooth_hinge(PositiveStep& step, std::span<const std::int32_t> chosen,
                                    float weight_per_negative) {
  const auto positive = static_cast<std::int64_t>(step.negatives.size());
  const float to_positive = smooth_distance(positive), derivative = weight_per_negative * settings_.distance_scale;
  std::int64_t active = 0;
  double loss = 0.0;
  for (const std::int32_t k : chosen) {
    const float violation = settings_.margin + to_positive - smooth_distance(k);
    if (violation <= 0.0f) continue;
    ++active;
    loss += violation;
    add_smooth_pair(step, k, -derivative);
  }
  step.loss = loss * weight_per_negative;
  if (active > 0) add_smooth_pair(step, positive, derivative * static_cast<float>(active));
}

void StepComputer::use_all(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight) {
  chosen_.resize(distances_.size());
  std::iota(chosen_.begin(), chosen_.end(), 0);
  add_hinge(step, chosen_, nearest_to_positive, positive_item, weight);
}

void StepComputer::use_hardest(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item,
                               float weight, std::int64_t n_hardest) {
  const auto n = static_cast<std::int32_t>(distances_.size());
  if (n_hardest == 1) {  // the first of the nearest
    std::uint64_t nearest = ordered(distances_[0].distance, 0);
    for (std::int32_t k = 1; k < n; ++k) nearest = std::min(nearest, ordered(distances_[k].distance, k));
    const auto hardest = static_cast<std::int32_t>(nearest);
    return add_hinge(step, {&hardest, 1}, nearest_to_positive, positive_item, weight);
  }
  chosen_.resize(n);
  std::iota(chosen_.begin(), chosen_.end(), 0);
  // Nearest first; equal distances in the order of drawing.
  const auto harder = [&](std::int32_t a, std::int32_t b) {
    return distances_[a].distance != distances_[b].distance ? distances_[a].distance < distances_[b].distance : a < b;
  };
  std::nth_element(chosen_.begin(), chosen_.begin() + (n_hardest - 1), chosen_.end(), harder);
  chosen_.resize(n_hardest);
  std::sort(chosen_.begin(), chosen_.end());  // the order of drawing, which does not depend on the selection
  add_hinge(step, chosen_, nearest_to_positive, positive_item, weight);
}

void StepComputer::use_two_stage(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item,
                                 float weight, std::int64_t n_hardest) {
  const auto n = static_cast<std::int64_t>(distances_.size());
  const float* v = state_.item_vectors.data() + positive_item * state_.dim;
  values_.resize(n);
  for (std::int64_t k = 0; k < n; ++k)
    values_[k] = simd::dot(v, state_.item_vectors.data() + step.negatives[k] * state_.dim, state_.dim);
  chosen_.resize(n);
  std::iota(chosen_.begin(), chosen_.end(), 0);
  std::nth_element(chosen_.begin(), chosen_.begin() + (n_hardest - 1), chosen_.end(), [&](auto a, auto b) {
    return values_[a] != values_[b] ? values_[a] > values_[b] : a < b;
  });
  chosen_.resize(n_hardest);
  std::sort(chosen_.begin(), chosen_.end());
  for (const std::int32_t k : chosen_) find_nearest(k, 1);
  add_hinge(step, chosen_, nearest_to_positive, positive_item, weight);
}

void StepComputer::use_threshold(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item,
                                 float weight, std::int64_t positive_index, std::int64_t n_hardest) {
  const auto n = static_cast<std::int64_t>(distances_.size());
  values_.resize(n);
  const float to_positive = is_smooth() ? smooth_distance(n) : nearest_to_positive.distance;
  for (std::int64_t k = 0; k < n; ++k)
    values_[k] = settings_.margin + to_positive - (is_smooth() ? smooth_distance(k) : distances_[k].distance);
  float& gamma = state_.gamma[positive_index];
  float statistic = 0.0f;  // the n_hardest-th largest violation, not below 0
  const bool first_step = gamma < 0.0f;
  if (first_step || settings_.gamma_rule == GammaRule::average) {
    scratch_ = values_;
    std::nth_element(scratch_.begin(), scratch_.begin() + (n_hardest - 1), scratch_.end(), std::greater<float>());
    statistic = std::max(0.0f, scratch_[n_hardest - 1]);
    if (first_step) gamma = statistic;
  }
  const float weight_per_negative = weight / static_cast<float>(n_hardest);
  std::int64_t active = 0;
  double loss = 0.0;
  const float derivative = weight_per_negative * settings_.distance_scale;
  if (!is_smooth()) step.pair_gradients.push_back({first_ + nearest_to_positive.vector, positive_item, 0.0f});
  for (std::int64_t k = 0; k < n; ++k) {
    const float violation = values_[k] - gamma;
    // At the first step gamma is one of the violations itself: that one counts, or N_beta = 1 would learn nothing.
    if (violation < 0.0f || (violation == 0.0f && !(first_step && gamma > 0.0f))) continue;
    ++active;
    loss += violation;
    if (is_smooth())
      add_smooth_pair(step, k, -derivative);
    else
      step.pair_gradients.push_back({first_ + distances_[k].vector, step.negatives[k], -derivative});
  }
  step.loss = static_cast<double>(weight) * gamma + loss * weight_per_negative;
  if (active == 0)
    step.pair_gradients.clear();
  else if (is_smooth())
    add_smooth_pair(step, n, derivative * static_cast<float>(active));
  else
    step.pair_gradients.front().derivative = derivative * static_cast<float>(active);
  // The slope of the loss in gamma. The weight of a user does not change where gamma's minimum is, so it is left out.
  step.gamma_slope = 1.0f - static_cast<float>(active) / static_cast<float>(n_hardest);
  const float updated = settings_.gamma_rule == GammaRule::gradient
                          ? gamma - settings_.gamma_rate * step.gamma_slope
                          : gamma + settings_.gamma_rate * (statistic - gamma);
  gamma = std::max(0.0f, updated);
}

void StepComputer::add_to_gradient(std::int64_t vector, float scale, const float* a, const float* b) {
  float* row = gradient_.data() + vector * state_.dim;
  has_gradient_[vector] ? simd::add_difference(row, scale, a, b, state_.dim)
                        : simd::difference(row, scale, a, b, state_.dim);
  has_gradient_[vector] = 1;
}

void StepComputer::compute_gradient(PositiveStep& step) {
  const std::int64_t dim = state_.dim;
  if (static_cast<std::int64_t>(gradient_.size()) < n_vectors_ * dim) gradient_.resize(n_vectors_ * dim);
  has_gradient_.assign(n_vectors_, 0);
  if (settings_.anchor == 1.0f) return;  // nothing is learned of the users but through the items
  for (const PairGradient& pair : step.pair_gradients)
    add_to_gradient(pair.vector - first_, 2.0f * pair.derivative, vectors_ + (pair.vector - first_) * dim,
                    state_.item_vectors.data() + pair.item * dim);
  if (settings_.dcrs != DcrsForm::off && n_vectors_ > 1) add_dcrs(step);
  if (settings_.anchor > 0.0f)
    for (std::int64_t c = 0; c < n_vectors_; ++c)
      if (has_gradient_[c])
        to_free_gradient(from_free_[c], vectors_ + c * dim, settings_.radius, dim, gradient_.data() + c * dim);
}

std::span<const float> StepComputer::user_gradient(PositiveStep& step) {
  compute_gradient(step);
  for (std::int64_t c = 0; c < n_vectors_; ++c)
    if (!has_gradient_[c]) std::fill_n(gradient_.data() + c * state_.dim, state_.dim, 0.0f);
  return {gradient_.data(), static_cast<std::size_t>(n_vectors_ * state_.dim)};
}

void StepComputer::prefetch_update(const PositiveStep& step) const {
  const auto n_rows = std::min<std::size_t>(is_smooth() ? n_vectors_ : 2, step.pair_gradients.size());
  for (const std::span<float>& part : {state_.user_optimizer.first, state_.user_optimizer.second})
    if (!part.empty())
      for (std::size_t p = 0; p < n_rows; ++p)
        simd::prefetch(part.data() + step.pair_gradients[p].vector * state_.dim, state_.dim);
}

void StepComputer::update_user_vectors(std::int64_t user, PositiveStep& step, DpcmlState& state) {
  if (settings_.anchor == 1.0f) return;
  set_user(user);
  const std::int64_t dim = state.dim;
  compute_gradient(step);
  for (std::int64_t c = 0; c < n_vectors_; ++c) {
    if (!has_gradient_[c]) continue;
    const float squared_norm = optimizer_step(state.user_vectors.data(), gradient_.data() + c * dim, first_ + c, dim,
                                              settings_.optimizer, state.user_optimizer);
    project(state.user_vectors.data() + (first_ + c) * dim, squared_norm, dim, settings_.user_region,
            settings_.radius);
  }
}

void StepComputer::add_dcrs(PositiveStep& step) {
  const std::int64_t dim = state_.dim, count = n_vectors_;
  const float* vectors = vectors_;
  const float weight = settings_.spread_weight * data_.dcrs_weight[user_];
  const float low = settings_.min_spread, high = settings_.max_spread;

  if (settings_.dcrs == DcrsForm::pairs) {
    // Hinge on the squared distance of each pair, averaged over all C x C entries; (a, b) and (b, a) are alike.
    const float weight_per_pair = 2.0f * weight / static_cast<float>(count * count);
    for (std::int64_t a = 0; a < count; ++a)
      for (std::int64_t b = a + 1; b < count; ++b) {
        const float distance = simd::squared_distance(vectors + a * dim, vectors + b * dim, dim);
        const float sign = distance < low ? -1.0f : distance > high ? 1.0f : 0.0f;
        if (sign == 0.0f) continue;
        step.dcrs += weight_per_pair * (sign < 0 ? low - distance : distance - high);
        const float *at_a = vectors + a * dim, *at_b = vectors + b * dim;
        add_to_gradient(a, 2.0f * sign * weight_per_pair, at_a, at_b);
        add_to_gradient(b, 2.0f * sign * weight_per_pair, at_b, at_a);
      }
    return;
  }
  // delta = sum over ordered pairs of |x_a - x_b|^2 / (2 C (C - 1)) = sum of |x_c - mean|^2 / (C - 1).
  mean_.resize(dim);
  const float share = 1.0f / static_cast<float>(count);
  float delta = simd::sum_of_parts(dim, [&]<class V>(std::int64_t k, V) {
    V mean{}, squares{};
    for (std::int64_t c = 0; c < count; ++c) mean += simd::load<V>(vectors + c * dim + k);
    mean *= share;
    for (std::int64_t c = 0; c < count; ++c) {
      const V difference = simd::load<V>(vectors + c * dim + k) - mean;
      squares += difference * difference;
    }
    simd::store(mean_.data() + k, mean);
    return squares;
  });
  delta /= static_cast<float>(count - 1);
  const float sign = delta < low ? -1.0f : delta > high ? 1.0f : 0.0f;
  if (sign == 0.0f) return;
  step.dcrs = static_cast<double>(weight) * (sign < 0 ? low - delta : delta - high);
  for (std::int64_t c = 0; c < count; ++c)
    add_to_gradient(c, 2.0f * sign * weight / static_cast<float>(count - 1), vectors + c * dim, mean_.data());
}

}  // namespace tastespace
