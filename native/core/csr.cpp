#include "core/csr.hpp"

#include <algorithm>
#include <stdexcept>

namespace tastespace {
namespace {

std::vector<std::int64_t> row_offsets(std::span<const std::int32_t> rows, std::int32_t n_rows) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(n_rows) + 1, 0);
  for (const std::int32_t row : rows) {
    if (row < 0 || row >= n_rows) throw std::out_of_range("a row index lies outside [0, n_rows)");
    ++offsets[static_cast<std::size_t>(row) + 1];
  }
  for (std::size_t r = 1; r < offsets.size(); ++r) offsets[r] += offsets[r - 1];
  return offsets;
}

// An input pair of a row: its column and its position in the input. Ordering by both makes the sort stable.
struct Entry {
  std::int32_t column;
  std::int64_t source;
  bool operator<(const Entry& other) const {
    return column != other.column ? column < other.column : source < other.source;
  }
};

}  // namespace

Csr build_csr(std::span<const std::int32_t> rows, std::span<const std::int32_t> columns,
              std::int32_t n_rows, int threads) {
  const auto offsets = row_offsets(rows, n_rows);
  std::vector<std::int32_t> sorted(columns.size());
  {
    std::vector<std::int64_t> cursor(offsets.begin(), offsets.end() - 1);
    for (std::size_t p = 0; p < rows.size(); ++p) sorted[cursor[rows[p]]++] = columns[p];
  }

  Csr out;
  out.offsets.assign(offsets.size(), 0);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 256)
  for (std::int32_t r = 0; r < n_rows; ++r) {
    const auto first = sorted.begin() + offsets[r], last = sorted.begin() + offsets[r + 1];
    std::sort(first, last);
    out.offsets[r + 1] = std::unique(first, last) - first;
  }
  for (std::int32_t r = 0; r < n_rows; ++r) {
    // Close the gaps that the repeats leave; rows only ever move towards the front.
    const std::int64_t kept = out.offsets[r + 1];
    if (out.offsets[r] != offsets[r])
      std::copy_n(sorted.begin() + offsets[r], kept, sorted.begin() + out.offsets[r]);
    out.offsets[r + 1] = out.offsets[r] + kept;
  }
  sorted.resize(out.offsets.back());
  out.columns = std::move(sorted);
  return out;
}

CsrWithSources build_csr_with_sources(std::span<const std::int32_t> rows,
                                      std::span<const std::int32_t> columns, std::int32_t n_rows,
                                      int threads) {
  const auto offsets = row_offsets(rows, n_rows);
  std::vector<Entry> entries(columns.size());
  {
    std::vector<std::int64_t> cursor(offsets.begin(), offsets.end() - 1);
    for (std::size_t p = 0; p < rows.size(); ++p)
      entries[cursor[rows[p]]++] = {columns[p], static_cast<std::int64_t>(p)};
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 256)
  for (std::int32_t r = 0; r < n_rows; ++r)
    std::sort(entries.begin() + offsets[r], entries.begin() + offsets[r + 1]);

  CsrWithSources out;
  out.csr.offsets.assign(offsets.size(), 0);
  out.sources.resize(entries.size());
  for (std::int32_t r = 0; r < n_rows; ++r) {
    for (std::int64_t e = offsets[r]; e < offsets[r + 1]; ++e) {
      out.sources[e] = entries[e].source;
      if (e == offsets[r] || entries[e].column != entries[e - 1].column) {
        out.csr.columns.push_back(entries[e].column);
        out.starts.push_back(e);
      }
    }
    out.csr.offsets[r + 1] = static_cast<std::int64_t>(out.csr.columns.size());
  }
  out.starts.push_back(static_cast<std::int64_t>(entries.size()));
  return out;
}

}  // namespace tastespace
