// Anchored interests: an interest vector is a mix of a learned (free) vector and the mean of the user's own items that
// are assigned to the interest,
//
//   e_c = P((1 - anchor) * free_c + anchor * mean_c),
//
// with P the projection to the region of the user vectors. Means and assignments are refreshed at the start of an epoch
// from a snapshot of the item vectors and are constants until the next refresh: no gradient goes through them.
#pragma once

#include <cstdint>
#include <span>

#include "train/dpcml.hpp"

namespace tastespace {

// How an anchored vector follows its free vector: de/df = free_weight * J, with J the Jacobian of the projection.
struct AnchoredVector {
  bool exists;        // false: no item is left and anchor = 1
  float free_weight;  // 1 - anchor; 1 where no item is left
  float shrinkage;    // radius / |z| where the projection moved z; 0 where it did not, and J is the identity
};

// Write e_c to `out`. `n` items have the sum `sum`, of which `left_out`, where it is given, is to be left out. Without
// any item left, e_c = P(free); with anchor = 1 there is no vector then, and `out` is infinite: so are all distances to
// it.
AnchoredVector anchored_vector(const float* free, const float* sum, std::int64_t n, const float* left_out,
                               const DpcmlSettings& settings, std::int64_t dim, float* out);

// From the gradient with respect to e_c (`vector`) to that with respect to the free vector, in place.
void to_free_gradient(const AnchoredVector& anchored, const float* vector, float radius, std::int64_t dim,
                      float* gradient);

// Take the snapshot of the item vectors, assign every positive to the nearest of its user's vectors, and add up the
// items of each interest. The vectors are computed from the assignments so far, `iterations` times (Lloyd's algorithm,
// with the free vectors mixed in); with 0 iterations the assignments stay. A user without assignments first gets those
// to items far from each other. No interest is without items while one of the user's others has two: it gets the item
// farthest from its own vector. Users in parallel; the same bits for every number of threads.
void refresh_anchors(const DpcmlData& data, DpcmlState& state, const DpcmlSettings& settings, std::int64_t iterations,
                     int threads);

// The anchored vectors of all users with all items of their histories, rows of dim. With anchor = 1, or with
// `repeat_vectors`, interests without items repeat the vectors of those with items in turn; a user without any item
// has the free vectors.
void anchored_user_vectors(const DpcmlData& data, const DpcmlState& state, const DpcmlSettings& settings,
                           bool repeat_vectors, std::span<float> out, int threads);

}  // namespace tastespace
