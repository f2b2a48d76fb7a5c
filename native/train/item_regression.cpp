#include "train/item_regression.hpp"

#include <algorithm>
#include <limits>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "core/parallel_errors.hpp"

namespace tastespace {
namespace {

constexpr double kLargestScale = 1e100;
constexpr const char* kTooLarge =
    "the values are too large: products of two of them are beyond the numbers of 32 bits. Divide them all by a common "
    "number, or take logarithms.";

struct Entry {
  std::int32_t item;
  float value;
};

// The Gram matrix X^T X, each row cut to its largest entries.
struct GramRows {
  std::vector<double> diagonal;
  std::vector<std::vector<Entry>> rows;              // without the diagonal, columns ascending
  std::vector<std::vector<std::int32_t>> neighbors;  // the nearest of each item by cosine, ascending
};

std::int64_t n_items_of(const ItemRegressionData& data) {
  return static_cast<std::int64_t>(data.item_offsets.size()) - 1;
}

// Keeps the n items of largest size, of equal ones the first, so that the order in which they were found does not matter.
template <class Size>
void keep_largest(std::vector<std::int32_t>& items, std::int64_t n, Size size) {
  if (static_cast<std::int64_t>(items.size()) <= n) return;
  const auto known = [&](std::int32_t item) {  // NaN, by which nothing can be ordered, is the smallest
    const double found = size(item);
    return found == found ? found : -std::numeric_limits<double>::infinity();
  };
  std::nth_element(items.begin(), items.begin() + n, items.end(), [&](std::int32_t a, std::int32_t b) {
    const double of_a = known(a), of_b = known(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  items.resize(n);
}

// One row of the matrix at a time, in a table that one thread owns.
class RowSums {
 public:
  explicit RowSums(std::int64_t n_items) : sums_(n_items, 0.0f), is_touched_(n_items, 0) {}

  // Computes the row of `item`; gives the other items of its users, in no particular order.
  const std::vector<std::int32_t>& accumulate(std::int32_t item, const ItemRegressionData& data) {
    for (const std::int32_t other : touched_) {
      sums_[other] = 0.0f;
      is_touched_[other] = 0;
    }
    touched_.clear();
    for (std::int64_t p = data.item_offsets[item]; p < data.item_offsets[item + 1]; ++p) {
      const std::int32_t user = data.users[p];
      for (std::int64_t q = data.user_offsets[user]; q < data.user_offsets[user + 1]; ++q) {
        const std::int32_t other = data.items[q];
        if (other == item) continue;
        if (!is_touched_[other]) {
          is_touched_[other] = 1;
          touched_.push_back(other);
        }
        sums_[other] += data.item_values[p] * data.user_values[q];
      }
    }
    return touched_;
  }

  float operator[](std::int32_t item) const { return sums_[item]; }

 private:
  std::vector<float> sums_;
  std::vector<std::uint8_t> is_touched_;
  std::vector<std::int32_t> touched_;
};

GramRows gram_rows(const ItemRegressionData& data, const ItemRegressionSettings& settings, int threads,
                   Interrupt& interrupt) {
  const std::int64_t n_items = n_items_of(data);
  GramRows out;
  out.diagonal.assign(n_items, 0.0);
  out.rows.resize(n_items);
  out.neighbors.resize(n_items);
  for (std::int64_t i = 0; i < n_items; ++i)
    for (std::int64_t p = data.item_offsets[i]; p < data.item_offsets[i + 1]; ++p)
      out.diagonal[i] += static_cast<double>(data.item_values[p]) * data.item_values[p];
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<RowSums> memory;
    std::vector<float> cosine;
    std::vector<std::int32_t> others, nearest;
    errors.run([&] {
      memory.emplace(n_items);
      cosine.resize(n_items);
    });
    const auto add_row = [&](std::int64_t i) {
      RowSums& sums = *memory;
      others = sums.accumulate(static_cast<std::int32_t>(i), data);
      for (const std::int32_t j : others) {
        // Of items whose values are all 0 nothing is known; sums beyond the numbers of 32 bits are refused.
        const double lengths = std::sqrt(out.diagonal[i] * out.diagonal[j]);
        cosine[j] = lengths > 0.0 ? static_cast<float>(sums[j] / lengths) : 0.0f;
        if (!std::isfinite(sums[j]) || !std::isfinite(cosine[j])) throw std::invalid_argument(kTooLarge);
      }
      nearest = others;
      keep_largest(nearest, settings.n_neighbors, [&](std::int32_t j) { return cosine[j]; });
      // A row is cut by the size of its entries, which is what a regression loses; the nearest are always kept.
      keep_largest(others, settings.row_length, [&](std::int32_t j) { return std::fabs(sums[j]); });
      others.insert(others.end(), nearest.begin(), nearest.end());
      std::sort(others.begin(), others.end());
      others.erase(std::unique(others.begin(), others.end()), others.end());
      auto& row = out.rows[i];
      row.reserve(others.size());
      for (const std::int32_t j : others) row.push_back({j, sums[j]});
      std::sort(nearest.begin(), nearest.end());
      out.neighbors[i] = nearest;
    };
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t i = 0; i < n_items; ++i)
      if (!interrupt.requested()) errors.run([&] { add_row(i); });
  }
  errors.rethrow();
  return out;
}

// In partial sums of a fixed number, which compilers can put into wide registers without reordering anything.
double dot(const double* a, const double* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 8;
  typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));
  Lanes wide{};
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    Lanes left, right;
    std::memcpy(&left, a + k, sizeof(Lanes));
    std::memcpy(&right, b + k, sizeof(Lanes));
    wide += left * right;
  }
  double total = 0.0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) total += wide[lane];
  for (; k < n; ++k) total += a[k] * b[k];
  return total;
}

// Cholesky's decomposition of a symmetric matrix (n x n, by rows, lower triangle) in place; false where it is not
// positive definite.
bool decompose(std::vector<double>& matrix, std::int64_t n) {
  for (std::int64_t row = 0; row < n; ++row) {
    double* mine = matrix.data() + row * n;
    for (std::int64_t column = 0; column < row; ++column) {
      const double* other = matrix.data() + column * n;
      mine[column] = (mine[column] - dot(mine, other, column)) / other[column];
    }
    const double rest = mine[row] - dot(mine, mine, row);
    if (!(rest > 0.0)) return false;
    mine[row] = std::sqrt(rest);
  }
  return true;
}

// Solves L L^T x = right in place.
void solve(const std::vector<double>& lower, std::int64_t n, std::vector<double>& right) {
  for (std::int64_t row = 0; row < n; ++row)
    right[row] = (right[row] - dot(lower.data() + row * n, right.data(), row)) / lower[row * n + row];
  for (std::int64_t row = n - 1; row >= 0; --row) {
    right[row] /= lower[row * n + row];
    for (std::int64_t k = 0; k < row; ++k) right[k] -= lower[row * n + k] * right[row];
  }
}

// The regression of one item on its neighbors, in tables that one thread owns.
class Regression {
 public:
  Regression(const GramRows& matrix, const ItemRegressionSettings& settings)
      : matrix_(matrix), settings_(settings), position_(matrix.rows.size(), -1) {}

  // Coefficients of the neighbors of `target`, in their order.
  const std::vector<double>& fit(std::int64_t target) {
    const std::vector<std::int32_t>& sources = matrix_.neighbors[target];
    const auto n = static_cast<std::int64_t>(sources.size());
    for (std::int64_t a = 0; a < n; ++a) position_[sources[a]] = static_cast<std::int32_t>(a);
    // Rows are cut, so a pair may stand in the row of one of its items only.
    gram_.assign(n * n, 0.0);
    for (std::int64_t a = 0; a < n; ++a)
      for (const Entry& entry : matrix_.rows[sources[a]]) {
        const std::int64_t b = position_[entry.item];
        if (b >= 0) gram_[std::max(a, b) * n + std::min(a, b)] = entry.value;
      }
    for (std::int64_t a = 0; a < n; ++a) position_[sources[a]] = -1;
    coefficients_.assign(n, 0.0);
    const std::vector<Entry>& row = matrix_.rows[target];
    for (std::int64_t a = 0; a < n; ++a)
      coefficients_[a] = std::lower_bound(row.begin(), row.end(), sources[a], [](const Entry& entry, std::int32_t item) {
                           return entry.item < item;
                         })->value;
    // What was cut may leave a matrix that is not positive definite; a larger diagonal mends that.
    for (double scale = 1.0;; scale *= 10.0) {
      factor_ = gram_;
      for (std::int64_t a = 0; a < n; ++a) {
        const double own = matrix_.diagonal[sources[a]];
        factor_[a * n + a] = own + scale * (settings_.regularization + settings_.self_weight * own);
      }
      if (decompose(factor_, n)) break;
      if (!(scale < kLargestScale)) throw std::invalid_argument(kTooLarge);  // it would never end
    }
    solve(factor_, n, coefficients_);
    return coefficients_;
  }

 private:
  const GramRows& matrix_;
  const ItemRegressionSettings& settings_;
  std::vector<std::int32_t> position_;  // of an item among the sources at hand, or -1
  std::vector<double> gram_, factor_, coefficients_;
};

}  // namespace

ItemRegression fit_item_regression(const ItemRegressionData& data, const ItemRegressionSettings& settings, int threads,
                                   Interrupt& interrupt) {
  const std::int64_t n_items = n_items_of(data);
  const GramRows matrix = gram_rows(data, settings, threads, interrupt);
  ItemRegression out;
  out.offsets.assign(n_items + 1, 0);
  for (std::int64_t j = 0; j < n_items; ++j)
    out.offsets[j + 1] = out.offsets[j] + static_cast<std::int64_t>(matrix.neighbors[j].size());
  out.sources.resize(out.offsets[n_items]);
  out.coefficients.resize(out.offsets[n_items]);
  ParallelErrors errors;
#pragma omp parallel num_threads(threads)
  {
    std::optional<Regression> regression;
    errors.run([&] { regression.emplace(matrix, settings); });
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t j = 0; j < n_items; ++j) {
      if (interrupt.requested()) continue;
      errors.run([&] {
        const std::vector<double>& coefficients = regression->fit(j);
        std::copy(matrix.neighbors[j].begin(), matrix.neighbors[j].end(), out.sources.begin() + out.offsets[j]);
        std::copy(coefficients.begin(), coefficients.end(), out.coefficients.begin() + out.offsets[j]);
      });
    }
  }
  errors.rethrow();
  return out;
}

}  // namespace tastespace
