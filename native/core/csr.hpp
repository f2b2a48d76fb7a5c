// Pairs (user, item) in any order -> compressed sparse rows with sorted, distinct columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tastespace {

struct Csr {
  std::vector<std::int64_t> offsets;  // n_rows + 1
  std::vector<std::int32_t> columns;  // ascending within a row, no repeats
};

struct CsrWithSources {
  Csr csr;
  // All input positions in (row, column, position) order, and where those of each entry of
  // the matrix start: the inputs of entry c are sources[starts[c]] ... sources[starts[c + 1] - 1].
  std::vector<std::int64_t> sources;
  std::vector<std::int64_t> starts;
};

// The plain structure. The result does not depend on the order of the input or on `threads`.
Csr build_csr(std::span<const std::int32_t> rows, std::span<const std::int32_t> columns,
              std::int32_t n_rows, int threads);

// The same with the way back to the input, for weights and timestamps.
CsrWithSources build_csr_with_sources(std::span<const std::int32_t> rows,
                                      std::span<const std::int32_t> columns, std::int32_t n_rows,
                                      int threads);

}  // namespace tastespace
