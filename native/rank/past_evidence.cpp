#include "rank/past_evidence.hpp"

#include <algorithm>
#include <cmath>

#include "core/simd.hpp"

namespace tastespace {
namespace {

double weight_of(std::span<const float> weights, std::size_t i) { return weights.empty() ? 1.0 : weights[i]; }

// The lower triangle of a matrix in rows becomes that of its Cholesky factor; false where it is not positive definite.
bool factorize(std::vector<double>& a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = a.data() + i * n;
    for (std::int64_t j = 0; j <= i; ++j) {
      const double* other = a.data() + j * n;
      double sum = row[j];
#pragma omp simd reduction(- : sum)
      for (std::int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      if (j < i)
        row[j] = sum / other[j];
      else if (sum > 0.0)
        row[i] = std::sqrt(sum);
      else
        return false;
    }
  }
  return true;
}

// L^-1 y for the vectors of some items, one row each, in single precision.
std::vector<float> solved(const std::vector<double>& factor, std::span<const float> vectors, std::int64_t dim,
                          std::span<const std::int32_t> items) {
  std::vector<float> out(items.size() * dim);
  std::vector<double> own(dim);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const float* from = vectors.data() + items[i] * dim;
    for (std::int64_t d = 0; d < dim; ++d) {
      const double* row = factor.data() + d * dim;
      double sum = from[d];
#pragma omp simd reduction(- : sum)
      for (std::int64_t k = 0; k < d; ++k) sum -= row[k] * own[k];
      own[d] = sum / row[d];
      out[i * dim + d] = static_cast<float>(own[d]);
    }
  }
  return out;
}

}  // namespace

std::vector<float> dense_entries(std::span<const float> matrix, std::int64_t n_items, std::span<const std::int32_t> past,
                                 std::span<const float> weights, std::span<const std::int32_t> items) {
  std::vector<float> out(past.size() * items.size());
  for (std::size_t i = 0; i < past.size(); ++i) {
    const float* row = matrix.data() + past[i] * n_items;
    const auto weight = static_cast<float>(weight_of(weights, i));
    for (std::size_t j = 0; j < items.size(); ++j) out[i * items.size() + j] = weight * row[items[j]];
  }
  return out;
}

std::vector<float> sparse_entries(std::span<const std::int64_t> offsets, std::span<const std::int32_t> columns,
                                  std::span<const float> values, std::span<const std::int32_t> past,
                                  std::span<const float> weights, std::span<const std::int32_t> items) {
  std::vector<float> out(past.size() * items.size());
  std::vector<float> row(offsets.size() - 1, 0.0f);
  for (std::size_t i = 0; i < past.size(); ++i) {
    const std::int64_t from = offsets[past[i]], to = offsets[past[i] + 1];
    const auto weight = static_cast<float>(weight_of(weights, i));
    for (std::int64_t k = from; k < to; ++k) row[columns[k]] += weight * values[k];
    for (std::size_t j = 0; j < items.size(); ++j) out[i * items.size() + j] = row[items[j]];
    for (std::int64_t k = from; k < to; ++k) row[columns[k]] = 0.0f;
  }
  return out;
}

std::vector<float> shared_scores(std::span<const float> vectors, std::int64_t dim, std::span<const std::int32_t> past,
                                 std::span<const std::int32_t> items, std::span<const float> scores) {
  const std::size_t n = items.size();
  std::vector<float> out(past.size() * n), sums(n, 0.0f);
  for (std::size_t i = 0; i < past.size(); ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const float product = simd::dot(vectors.data() + past[i] * dim, vectors.data() + items[j] * dim, dim);
      sums[j] += out[i * n + j] = std::max(product, 0.0f);
    }
  for (std::size_t j = 0; j < n; ++j) sums[j] = scores[j] / std::max(sums[j], 1e-12f);
  for (std::size_t i = 0; i < past.size(); ++i)
    for (std::size_t j = 0; j < n; ++j) out[i * n + j] *= sums[j];
  return out;
}

std::vector<float> least_squares_evidence(std::span<const float> vectors, std::int64_t dim, std::span<const double> gram,
                                          double ridge, std::span<const std::int32_t> past,
                                          std::span<const double> extra, std::span<const std::int32_t> items) {
  std::vector<double> normal(gram.begin(), gram.end());
  for (std::int64_t d = 0; d < dim; ++d) normal[d * dim + d] += ridge;
  for (std::size_t i = 0; i < past.size(); ++i) {
    const float* own = vectors.data() + past[i] * dim;
    for (std::int64_t d = 0; d < dim; ++d) {
      const double factor = extra[i] * own[d];
      double* row = normal.data() + d * dim;
#pragma omp simd
      for (std::int64_t k = 0; k <= d; ++k) row[k] += factor * own[k];
    }
  }
  if (!factorize(normal, dim)) return {};
  const std::vector<float> left = solved(normal, vectors, dim, past), right = solved(normal, vectors, dim, items);
  std::vector<float> out(past.size() * items.size());
  for (std::size_t i = 0; i < past.size(); ++i)
    for (std::size_t j = 0; j < items.size(); ++j)
      out[i * items.size() + j] = static_cast<float>(1.0 + extra[i]) * simd::dot(left.data() + i * dim, right.data() + j * dim, dim);
  return out;
}

}  // namespace tastespace
