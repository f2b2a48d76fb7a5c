// Weighted least squares for matrix factorization (ALS): the vectors of one side, with those of the other side fixed.
#pragma once

#include <cstdint>
#include <span>

#include "core/interrupt.hpp"

namespace tastespace {

// Row r of the matrix holds columns[offsets[r]] ... columns[offsets[r + 1] - 1] with the additional confidences extra:
// a pair in the matrix has the target 1 and the weight 1 + extra, every other pair the target 0 and the weight 1.
struct ConfidenceRows {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> columns;
  std::span<const float> extra;
};

// A few steps of conjugate gradients for each row x of `vectors`, from where it is, towards the solution of
//   (gram + regularization[row] * identity + sum extra y y') x = sum (1 + extra) y,
// with sums over the row's columns, y their rows of `fixed`, and gram = fixed' fixed of shape (dim, dim). Rows are
// independent of each other: the same bits for every number of threads. After an interrupt some rows are left as they
// were.
void als_half_step(const ConfidenceRows& rows, std::span<const float> fixed, std::span<const float> gram,
                   std::span<const float> regularization, std::int64_t dim, int n_steps, std::span<float> vectors,
                   int threads, Interrupt& interrupt);

}  // namespace tastespace
