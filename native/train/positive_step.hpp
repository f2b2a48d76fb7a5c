// The step of one positive: negatives, distances, the sampler's loss, and the gradient of the user's vectors.
#pragma once

#include <vector>

#include "train/anchors.hpp"
#include "train/dpcml.hpp"

namespace tastespace {

// Computes steps; holds working memory, so every thread needs its own.
class StepComputer {
 public:
  StepComputer(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings);

  // Draw the negatives of a positive of `user` into `step`. Nothing that is learned is read, so it may be done well
  // before the step.
  void draw(std::int64_t user, CounterRng rng, PositiveStep& step);

  // The same for users who have taken so many items each, of which none is drawn; see `draws_alike`.
  void draw_for_all(CounterRng rng, PositiveStep& step) { negatives_.draw({}, {}, settings_.n_negatives, rng, step.negatives); }
  bool draws_alike(std::int64_t n_taken) const { return negatives_.draws_alike(n_taken, settings_.n_negatives); }

  // Prefetch the item vectors of a step whose negatives are drawn.
  void prefetch_items(std::int64_t positive_index, const PositiveStep& step) const;

  // Fills the rest of `step` and updates gamma. Returns false where no step is possible: the user has no negatives, or
  // with anchor = 1 no other item.
  bool compute(std::int64_t user, std::int64_t positive_index, PositiveStep& step);

  // Row `vector` of the users' vectors, which is one of this user's, as it is in the step just computed.
  const float* vector(std::int64_t vector) const { return vectors_ + (vector - first_) * state_.dim; }

  // Gradient of the loss and of DCRS of the step just computed, with respect to the user's vectors (with anchor > 0,
  // the free ones): rows of dim.
  std::span<const float> user_gradient(PositiveStep& step);

  // Prefetch what the update of the user's vectors needs besides the vectors.
  void prefetch_update(const PositiveStep& step) const;

  // An optimizer step of the user's vectors along that gradient, and the projection. Rows without gradient do not
  // change. Without `anchor`, steps of other users may have been computed since this one.
  void update_user_vectors(std::int64_t user, PositiveStep& step, DpcmlState& state);

 private:
  struct Nearest {
    float distance;       // d(u, v)
    std::int32_t vector;  // the user's nearest vector, counted within the user
  };
  void set_user(std::int64_t user);
  // Sets `vectors_`. Returns false where the user has none.
  bool find_vectors(std::int64_t positive_index);
  bool is_smooth() const { return settings_.temperature > 0.0f; }
  // The user's nearest vector for each of `n` of items_, from `first` on, into distances_; where the minimum is smooth
  // also the squared distances to all of the user's vectors, into shares_.
  void find_nearest(std::int64_t first, std::int64_t n);
  template <int N>
  void find_nearest_of(std::int64_t first, std::int64_t n);
  // The smooth minimum for the item at this place of items_; its row of shares_ becomes the vectors' shares in it.
  float smooth_distance(std::int64_t place);
  // Gradients of the item at this place and of all vectors with a share in its distance, after `smooth_distance`.
  void add_smooth_pair(PositiveStep& step, std::int64_t place, float derivative);
  void use_all(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight);
  void use_hardest(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight,
                   std::int64_t n_hardest);
  void use_two_stage(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight,
                     std::int64_t n_hardest);
  void use_threshold(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight,
                     std::int64_t positive_index, std::int64_t n_hardest);
  // Mean hinge loss over the chosen negatives (positions) and its pair gradients.
  void add_hinge(PositiveStep& step, std::span<const std::int32_t> chosen, Nearest nearest_to_positive,
                 std::int32_t positive_item, float weight);
  void add_smooth_hinge(PositiveStep& step, std::span<const std::int32_t> chosen, float weight_per_negative);
  // Fills `gradient_` where `has_gradient_`; other rows are left as they were.
  void compute_gradient(PositiveStep& step);
  void add_to_gradient(std::int64_t vector, float scale, const float* a, const float* b);
  void add_dcrs(PositiveStep& step);

  const DpcmlData& data_;
  const DpcmlState& state_;
  const DpcmlSettings& settings_;
  NegativeSampler negatives_;
  std::int64_t user_ = 0, first_ = 0, n_vectors_ = 0;  // the user, and the rows of the user's vectors
  const float* vectors_ = nullptr;                     // these vectors: the learned ones, or anchored_
  std::vector<float> anchored_;                        // with anchor > 0, without the positive of the step
  std::vector<AnchoredVector> from_free_;              // how they follow the free vectors
  std::vector<std::int32_t> items_;                    // the negatives and the positive
  std::vector<Nearest> distances_;                     // per negative
  std::vector<float> shares_;                          // with a smooth minimum: a row per item of items_
  std::vector<std::int32_t> chosen_;                   // positions among the negatives
  std::vector<float> values_, scratch_;                // per negative, and a copy to select from
  std::vector<float> gradient_, mean_;                 // of the user's vectors
  std::vector<std::uint8_t> has_gradient_;             // per vector of the user
};

}  // namespace tastespace
