// The step of one positive: negatives, distances, the sampler's loss, and the gradient of the user's vectors.
#pragma once

#include <vector>

#include "anchors.hpp"
#include "dpcml.hpp"

namespace tastespace {

// Computes steps; holds working memory, so every thread needs its own.
class StepComputer {
 public:
  StepComputer(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings);

  // Fills `step` for a positive of `user` and updates its gamma. Returns false where no step is possible: the user has
  // no negatives, or with anchor = 1 no other item.
  bool compute(std::int64_t user, std::int64_t positive_index, CounterRng rng, PositiveStep& step);

  // Write the vectors of the pair gradients of the step just computed to `step`.
  void keep_vectors(PositiveStep& step) const;

  // Gradient of the loss and of DCRS of the step just computed, with respect to the user's vectors (with anchor > 0,
  // the free ones): rows of dim.
  std::span<const float> user_gradient(PositiveStep& step);

  // An optimizer step of the user's vectors along that gradient, and the projection. Rows without gradient do not
  // change.
  void update_user_vectors(PositiveStep& step, DpcmlState& state);

 private:
  struct Nearest {
    float distance;       // d(u, v)
    std::int64_t vector;  // row of the user's nearest vector
  };
  // Sets `vectors_`. Returns false where the user has none.
  bool find_vectors(std::int64_t positive_index);
  Nearest nearest(std::int32_t item) const;
  void use_all(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight);
  void use_hardest(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight,
                   std::int64_t n_hardest);
  void use_two_stage(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight,
                     std::int64_t n_hardest);
  void use_threshold(PositiveStep& step, Nearest nearest_to_positive, std::int32_t positive_item, float weight,
                     std::int64_t positive_index, std::int64_t n_hardest);
  // Mean hinge loss over the chosen negatives and its pair gradients.
  void add_hinge(PositiveStep& step, const std::vector<std::int32_t>& chosen, Nearest nearest_to_positive,
                 std::int32_t positive_item, float weight);
  void add_dcrs(PositiveStep& step);

  const DpcmlData& data_;
  const DpcmlState& state_;
  const DpcmlSettings& settings_;
  NegativeSampler negatives_;
  std::int64_t user_ = 0, first_ = 0, n_vectors_ = 0;  // the user, and the rows of the user's vectors
  const float* vectors_ = nullptr;                     // these vectors: the learned ones, or anchored_
  std::vector<float> anchored_;                        // with anchor > 0, without the positive of the step
  std::vector<AnchoredVector> from_free_;              // how they follow the free vectors
  std::vector<Nearest> distances_;                     // per negative
  std::vector<std::int32_t> chosen_;                   // positions among the negatives
  std::vector<float> values_, scratch_;                // per negative, and a copy to select from
  std::vector<float> gradient_, mean_;                 // of the user's vectors
  std::vector<std::uint8_t> has_gradient_;             // per vector of the user
};

}  // namespace tastespace
