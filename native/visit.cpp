#include "visit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace tastespace {
namespace {

constexpr std::int64_t kAtOnce = 8;  // vectors of a user compared with an item in one go

}  // namespace

Visitor::Visitor(const TrainData& data, const TrainState& state, const TrainSettings& settings)
    : data_(data), state_(state), settings_(settings), drawer_(data.n_items, data.alias) {}

Visitor::Found Visitor::nearest(std::int32_t item) const {
  const float* v = state_.items.data() + item * state_.dim;
  float distances[kAtOnce];
  Found best{INFINITY, first_};
  for (std::int64_t from = 0; from < count_; from += kAtOnce) {
    const std::int64_t n = std::min(kAtOnce, count_ - from);
    simd::squared_distances(state_.users.data() + (first_ + from) * state_.dim, n, v, state_.dim, distances);
    for (std::int64_t c = 0; c < n; ++c)
      if (distances[c] < best.score) best = {distances[c], first_ + from + c};
  }
  best.score *= settings_.distance_scale;
  return best;
}

bool Visitor::look(std::int64_t user, std::int64_t positive, Stream stream, Visit& visit) {
  user_ = user;
  first_ = data_.vector_offsets[user];
  count_ = data_.vector_offsets[user + 1] - first_;
  const std::int32_t item = data_.positives[positive];
  const auto taken = data_.positives.subspan(data_.offsets[user], data_.offsets[user + 1] - data_.offsets[user]);
  visit.pulls.clear();
  visit.loss = visit.dcrs = 0.0;
  visit.gamma_slope = 0.0f;
  simd::prefetch(state_.items.data() + item * state_.dim, state_.dim);
  drawer_.draw(taken, settings_.n_candidates, stream, visit.candidates);
  if (visit.candidates.empty()) return false;
  for (const std::int32_t candidate : visit.candidates)
    simd::prefetch(state_.items.data() + candidate * state_.dim, state_.dim);

  const Found mine = nearest(item);
  found_.resize(visit.candidates.size());
  if (settings_.sampler != Sampler::two_stage)
    for (std::size_t k = 0; k < found_.size(); ++k) found_[k] = nearest(visit.candidates[k]);

  const float weight = data_.loss_weight[user];
  const auto n_found = static_cast<std::int64_t>(found_.size());
  const std::int64_t wanted = settings_.n_used > 0 ? settings_.n_used
                              : data_.n_hardest.empty() ? n_found
                                                        : data_.n_hardest[user];
  const std::int64_t n_used = std::min(wanted, n_found);
  switch (settings_.sampler) {
    case Sampler::all: use_all(visit, mine, item, weight); break;
    case Sampler::two_stage: use_informative(visit, mine, item, weight, n_used); break;
    case Sampler::hardest: use_hardest(visit, mine, item, weight, n_used); break;
    case Sampler::differentiable: use_threshold(visit, mine, item, weight, positive, n_used); break;
  }
  return true;
}

void Visitor::push(Visit& visit, const std::vector<std::int32_t>& chosen, Found positive, std::int32_t item,
                   float weight) {
  const float share = weight / static_cast<float>(chosen.size());
  std::int64_t active = 0;
  double loss = 0.0;
  visit.pulls.push_back({positive.vector, item, 0.0f});
  for (const std::int32_t k : chosen) {
    const float violation = settings_.margin + positive.score - found_[k].score;
    if (violation <= 0.0f) continue;
    ++active;
    loss += violation;
    visit.pulls.push_back({found_[k].vector, visit.candidates[k], -share * settings_.distance_scale});
  }
  visit.loss = loss * share;
  visit.pulls.front().strength = share * settings_.distance_scale * static_cast<float>(active);
  if (active == 0) visit.pulls.clear();
}

void Visitor::use_all(Visit& visit, Found positive, std::int32_t item, float weight) {
  chosen_.resize(found_.size());
  std::iota(chosen_.begin(), chosen_.end(), 0);
  push(visit, chosen_, positive, item, weight);
}

void Visitor::use_hardest(Visit& visit, Found positive, std::int32_t item, float weight, std::int64_t n_used) {
  chosen_.resize(found_.size());
  std::iota(chosen_.begin(), chosen_.end(), 0);
  // Nearest first; equal distances in the order of drawing.
  const auto harder = [&](std::int32_t a, std::int32_t b) {
    return found_[a].score != found_[b].score ? found_[a].score < found_[b].score : a < b;
  };
  if (n_used == 1) {
    chosen_ = {*std::min_element(chosen_.begin(), chosen_.end(), harder)};
  } else {
    std::nth_element(chosen_.begin(), chosen_.begin() + (n_used - 1), chosen_.end(), harder);
    chosen_.resize(n_used);
    std::sort(chosen_.begin(), chosen_.end());  // the order of drawing, whatever the selection did
  }
  push(visit, chosen_, positive, item, weight);
}

void Visitor::use_informative(Visit& visit, Found positive, std::int32_t item, float weight, std::int64_t n_used) {
  const auto n = static_cast<std::int64_t>(found_.size());
  const float* v = state_.items.data() + item * state_.dim;
  ranking_.resize(n);
  for (std::int64_t k = 0; k < n; ++k)
    ranking_[k] = simd::dot(v, state_.items.data() + visit.candidates[k] * state_.dim, state_.dim);
  chosen_.resize(n);
  std::iota(chosen_.begin(), chosen_.end(), 0);
  std::nth_element(chosen_.begin(), chosen_.begin() + (n_used - 1), chosen_.end(), [&](auto a, auto b) {
    return ranking_[a] != ranking_[b] ? ranking_[a] > ranking_[b] : a < b;
  });
  chosen_.resize(n_used);
  std::sort(chosen_.begin(), chosen_.end());
  for (const std::int32_t k : chosen_) found_[k] = nearest(visit.candidates[k]);
  push(visit, chosen_, positive, item, weight);
}

void Visitor::use_threshold(Visit& visit, Found positive, std::int32_t item, float weight, std::int64_t index,
                            std::int64_t n_hard) {
  const auto n = static_cast<std::int64_t>(found_.size());
  ranking_.resize(n);
  for (std::int64_t k = 0; k < n; ++k) ranking_[k] = settings_.margin + positive.score - found_[k].score;
  float& gamma = state_.gamma[index];
  float statistic = 0.0f;
  const bool first_visit = gamma < 0.0f;
  if (first_visit || settings_.gamma_rule == GammaRule::average) {
    scratch_ = ranking_;
    std::nth_element(scratch_.begin(), scratch_.begin() + (n_hard - 1), scratch_.end(), std::greater<float>());
    statistic = std::max(0.0f, scratch_[n_hard - 1]);
    if (first_visit) gamma = statistic;
  }
  const float share = weight / static_cast<float>(n_hard);
  std::int64_t active = 0;
  double loss = 0.0;
  visit.pulls.push_back({positive.vector, item, 0.0f});
  for (std::int64_t k = 0; k < n; ++k) {
    const float violation = ranking_[k] - gamma;
    // At the first visit gamma is one of the violations itself: that one counts, or N_beta = 1 would learn nothing.
    if (violation < 0.0f || (violation == 0.0f && !(first_visit && gamma > 0.0f))) continue;
    ++active;
    loss += violation;
    visit.pulls.push_back({found_[k].vector, visit.candidates[k], -share * settings_.distance_scale});
  }
  visit.loss = static_cast<double>(weight) * gamma + loss * share;
  visit.pulls.front().strength = share * settings_.distance_scale * static_cast<float>(active);
  if (active == 0) visit.pulls.clear();
  // The slope of the loss in gamma; the weight of a user changes no gamma's minimum, so it is left out.
  visit.gamma_slope = 1.0f - static_cast<float>(active) / static_cast<float>(n_hard);
  const float moved = settings_.gamma_rule == GammaRule::gradient
                          ? gamma - settings_.gamma_rate * visit.gamma_slope
                          : gamma + settings_.gamma_rate * (statistic - gamma);
  gamma = std::max(0.0f, moved);
}

std::span<const float> Visitor::user_gradient(Visit& visit) {
  const std::int64_t dim = state_.dim;
  gradient_.assign(count_ * dim, 0.0f);
  touched_.assign(count_, 0);
  for (const Pull& pull : visit.pulls) {
    const std::int64_t c = pull.vector - first_;
    simd::add_difference(gradient_.data() + c * dim, 2.0f * pull.strength,
                         state_.users.data() + pull.vector * dim, state_.items.data() + pull.item * dim, dim);
    touched_[c] = 1;
  }
  if (settings_.dcrs != DcrsForm::off && count_ > 1) add_dcrs(visit);
  return gradient_;
}

void Visitor::add_dcrs(Visit& visit) {
  const std::int64_t dim = state_.dim, count = count_;
  const float* vectors = state_.users.data() + first_ * dim;
  const float weight = settings_.dcrs_weight * data_.dcrs_share[user_];
  const float low = settings_.dcrs_low, high = settings_.dcrs_high;

  if (settings_.dcrs == DcrsForm::pairs) {
    // Hinge on the squared distance of each pair, averaged over all C x C entries; (a, b) and (b, a) are alike.
    const float share = 2.0f * weight / static_cast<float>(count * count);
    for (std::int64_t a = 0; a < count; ++a)
      for (std::int64_t b = a + 1; b < count; ++b) {
        const float distance = simd::squared_distance(vectors + a * dim, vectors + b * dim, dim);
        const float sign = distance < low ? -1.0f : distance > high ? 1.0f : 0.0f;
        if (sign == 0.0f) continue;
        visit.dcrs += share * (sign < 0 ? low - distance : distance - high);
        simd::add_difference(gradient_.data() + a * dim, 2.0f * sign * share, vectors + a * dim, vectors + b * dim, dim);
        simd::add_difference(gradient_.data() + b * dim, 2.0f * sign * share, vectors + b * dim, vectors + a * dim, dim);
        touched_[a] = touched_[b] = 1;
      }
    return;
  }
  // delta = sum over ordered pairs of |x_a - x_b|^2 / (2 C (C - 1)) = sum of |x_c - mean|^2 / (C - 1).
  mean_.assign(dim, 0.0f);
  for (std::int64_t c = 0; c < count; ++c)
    for (std::int64_t k = 0; k < dim; ++k) mean_[k] += vectors[c * dim + k];
  simd::scale(mean_.data(), 1.0f / static_cast<float>(count), dim);
  float delta = 0.0f;
  for (std::int64_t c = 0; c < count; ++c) delta += simd::squared_distance(vectors + c * dim, mean_.data(), dim);
  delta /= static_cast<float>(count - 1);
  const float sign = delta < low ? -1.0f : delta > high ? 1.0f : 0.0f;
  if (sign == 0.0f) return;
  visit.dcrs = static_cast<double>(weight) * (sign < 0 ? low - delta : delta - high);
  for (std::int64_t c = 0; c < count; ++c) {
    simd::add_difference(gradient_.data() + c * dim, 2.0f * sign * weight / static_cast<float>(count - 1),
                         vectors + c * dim, mean_.data(), dim);
    touched_[c] = 1;
  }
}

}  // namespace tastespace
