// Scores of all items for a few users at a time, from vectors: the best of a user's vectors counts.
//
//   score(u, v) = max over u's vectors x of   scale * <x, v> + vector_term[x] + item_term[v]
//
// With scale = 2 and the terms -|x|^2 and -|v|^2 that is minus the smallest squared distance; with scale = 1
// it is the largest inner product plus a bias. Larger is better, always.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

// Item vectors regrouped so that one SIMD register holds the same coordinate of neighboring items.
class PackedItems {
 public:
  PackedItems(std::span<const float> vectors, std::span<const float> terms, std::int64_t n_items,
              std::int64_t dim);

  std::int64_t n_items() const { return n_items_; }
  std::int64_t dim() const { return dim_; }
  std::int64_t n_panels() const { return n_panels_; }
  // Row length that a score buffer needs: n_items rounded up to whole panels.
  std::int64_t padded_items() const;
  const float* panel(std::int64_t p) const;
  const float* terms(std::int64_t p) const;

 private:
  std::int64_t n_items_, dim_, n_panels_;
  std::vector<float> packed_, terms_;
};

// Some rows of vectors with the user each belongs to.
struct VectorRows {
  std::span<const float> vectors;       // n_rows x dim
  std::span<const float> terms;         // n_rows
  std::span<const std::int32_t> owner;  // n_rows, index into the score buffer
};

// Vectors of users: user u owns the vectors offsets[u] ... offsets[u + 1] - 1.
struct UserVectors {
  std::span<const float> vectors;
  std::span<const float> terms;
  std::span<const std::int64_t> offsets;
};

// Users and items whose scores are computed.
struct ScoringVectors {
  const PackedItems* items;
  UserVectors users;
  float scale;
};

// The vectors of a few users, copied one after the other; a user's position among them is the owner of its rows.
class GatheredRows {
 public:
  void gather(const UserVectors& model, std::span<const std::int32_t> users, std::int64_t dim);
  VectorRows rows() const { return {vectors_, terms_, owner_}; }
  // Number of each row among the vectors of its owner.
  std::span<const std::int32_t> numbers() const { return numbers_; }

 private:
  std::vector<float> vectors_, terms_;
  std::vector<std::int32_t> owner_, numbers_;
};

// Fill scores[owner * padded_items + item] for n_owners users. Padding and owners without a row get -infinity.
// Each score is the same sum in the same order, however users and items are grouped.
void score_block(const PackedItems& items, const VectorRows& rows, float scale, std::int64_t n_owners,
                std::span<float> scores);

// The same, and in `interests` the number of the vector that gives each score, the first of equal ones.
void score_block(const PackedItems& items, const GatheredRows& gathered, float scale, std::int64_t n_owners,
                 std::span<float> scores, std::span<std::int32_t> interests);

}  // namespace tastespace
