// One visit of one positive: candidates, distances, the sampler's loss, and the gradient of the user's vectors.
#pragma once

#include <vector>

#include "train.hpp"

namespace tastespace {

// One thread's workbench.
class Visitor {
 public:
  Visitor(const TrainData& data, const TrainState& state, const TrainSettings& settings);

  // Fills `visit` for a positive of `user`. Returns false where the user has no negatives.
  bool look(std::int64_t user, std::int64_t positive, Stream stream, Visit& visit);

  // Gradient of that visit's loss and of DCRS with respect to the user's vectors: rows of dim in order.
  // `touched(c)` tells which rows are not zero.
  std::span<const float> user_gradient(Visit& visit);
  bool touched(std::int64_t c) const { return touched_[c] != 0; }

 private:
  struct Found {
    float score;          // s(u, v)
    std::int64_t vector;  // the vector that gives it
  };
  Found nearest(std::int32_t item) const;
  void use_all(Visit& visit, Found positive, std::int32_t item, float weight);
  void use_hardest(Visit& visit, Found positive, std::int32_t item, float weight, std::int64_t n_used);
  void use_informative(Visit& visit, Found positive, std::int32_t item, float weight, std::int64_t n_used);
  void use_threshold(Visit& visit, Found positive, std::int32_t item, float weight, std::int64_t index,
                     std::int64_t n_hard);
  void push(Visit& visit, const std::vector<std::int32_t>& chosen, Found positive, std::int32_t item,
            float weight);
  void add_dcrs(Visit& visit);

  const TrainData& data_;
  const TrainState& state_;
  const TrainSettings& settings_;
  NegativeDrawer drawer_;
  std::int64_t user_ = 0, first_ = 0, count_ = 0;  // whose positive it is, and the user's vectors
  std::vector<Found> found_;            // per candidate
  std::vector<std::int32_t> chosen_;    // positions among the candidates
  std::vector<float> ranking_, scratch_;  // per candidate, and for order statistics
  std::vector<float> gradient_, mean_;    // of the user's vectors
  std::vector<std::uint8_t> touched_;
};

}  // namespace tastespace
