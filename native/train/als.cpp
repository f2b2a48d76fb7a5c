#include "train/als.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/parallel_errors.hpp"
#include "core/simd.hpp"

namespace tastespace {
namespace {

constexpr float kConverged = 1e-20f;  // squared norm of the residual

// to += scale * a
void add_scaled(float* to, float scale, const float* a, std::int64_t dim) {
  std::int64_t k = 0;
  for (; k + simd::kLanes <= dim; k += simd::kLanes)
    simd::store(to + k, simd::load<simd::Vec>(to + k) + simd::load<simd::Vec>(a + k) * scale);
  for (; k < dim; ++k) to[k] += scale * a[k];
}

// The system of one row; holds working memory, so every thread needs its own.
class RowSolver {
 public:
  RowSolver(const ConfidenceRows& rows, std::span<const float> fixed, std::span<const float> gram, std::int64_t dim)
      : rows_(rows), fixed_(fixed), gram_(gram), dim_(dim), residual_(dim), direction_(dim), product_(dim) {}

  void improve(std::int64_t row, float regularization, float* x, int n_steps) {
    regularization_ = regularization;
    begin_ = rows_.offsets[row];
    end_ = rows_.offsets[row + 1];
    if (begin_ == end_) {  // the solution of a row without entries
      std::fill(x, x + dim_, 0.0f);
      return;
    }
    multiply(x, residual_.data());
    simd::scale(residual_.data(), -1.0f, dim_);
    for (std::int64_t e = begin_; e < end_; ++e)
      add_scaled(residual_.data(), 1.0f + rows_.extra[e], column(e), dim_);
    direction_ = residual_;
    float squared = simd::dot(residual_.data(), residual_.data(), dim_);
    for (int step = 0; step < n_steps && squared > kConverged; ++step) {
      multiply(direction_.data(), product_.data());
      const float length = squared / simd::dot(direction_.data(), product_.data(), dim_);
      add_scaled(x, length, direction_.data(), dim_);
      add_scaled(residual_.data(), -length, product_.data(), dim_);
      const float before = squared;
      squared = simd::dot(residual_.data(), residual_.data(), dim_);
      simd::scale(direction_.data(), squared / before, dim_);
      add_scaled(direction_.data(), 1.0f, residual_.data(), dim_);
    }
  }

 private:
  const float* column(std::int64_t entry) const { return fixed_.data() + rows_.columns[entry] * dim_; }

  // out = (gram + regularization + sum extra y y') x; gram is symmetric
  void multiply(const float* x, float* out) const {
    std::copy_n(x, dim_, out);
    simd::scale(out, regularization_, dim_);
    for (std::int64_t k = 0; k < dim_; ++k) add_scaled(out, x[k], gram_.data() + k * dim_, dim_);
    for (std::int64_t e = begin_; e < end_; ++e)
      add_scaled(out, rows_.extra[e] * simd::dot(column(e), x, dim_), column(e), dim_);
  }

  const ConfidenceRows& rows_;
  std::span<const float> fixed_, gram_;
  std::int64_t dim_, begin_ = 0, end_ = 0;
  float regularization_ = 0.0f;
  std::vector<float> residual_, direction_, product_;
};

}  // namespace

void als_half_step(const ConfidenceRows& rows, std::span<const float> fixed, std::span<const float> gram,
                   std::span<const float> regularization, std::int64_t dim, int n_steps, std::span<float> vectors,
                   int threads, Interrupt& interrupt) {
  const auto n_rows = static_cast<std::int64_t>(rows.offsets.size()) - 1;
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<RowSolver> solver;
    errors.run([&] { solver.emplace(rows, fixed, gram, dim); });
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t row = 0; row < n_rows; ++row)
      if (!interrupt.requested())
        errors.run([&] { solver->improve(row, regularization[row], vectors.data() + row * dim, n_steps); });
  }
  errors.rethrow();
}

}  // namespace tastespace
