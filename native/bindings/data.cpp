// Ids, interactions and checksums.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "core/crc32.hpp"
#include "core/csr.hpp"
#include "core/encode_ids.hpp"
#include "core/row_positions.hpp"

namespace tastespace::bindings {

void bind_data(nb::module_& m) {
  const auto row_positions = [&m]<class T>(T) {
    m.def(
        "row_positions",
        [](Array<std::int64_t> offsets, Array<T> keys, int threads) {
          if (offsets.size() == 0 || view(offsets).back() != static_cast<std::int64_t>(keys.size()))
            throw std::invalid_argument("offsets do not end at the number of keys");
          std::vector<std::int32_t> out;
          {
            nb::gil_scoped_release free;
            out = tastespace::row_positions(view(offsets), view(keys), threads);
          }
          return give(std::move(out));
        },
        "offsets"_a, "keys"_a.noconvert(), "threads"_a);
  };
  row_positions(double{});
  row_positions(std::int64_t{});

  m.def(
      "crc32",
      [](Array<std::uint8_t> bytes, std::uint32_t before) {
        nb::gil_scoped_release free;
        return tastespace::crc32(view(bytes), before);
      },
      "bytes"_a, "before"_a = 0);

  m.def(
      "encode_ids",
      [](Array<std::int64_t> values) {
        tastespace::EncodedIds out;
        {
          nb::gil_scoped_release free;
          out = tastespace::encode_ids(view(values));
        }
        return std::make_tuple(give(std::move(out.ids)), give(std::move(out.codes)));
      },
      "values"_a);

  m.def(
      "build_csr",
      [](Array<std::int32_t> rows, Array<std::int32_t> columns, std::int32_t n_rows, int threads) {
        require_size("columns", columns.size(), rows.size(), "one per row");
        require_least("n_rows", n_rows, 0);
        require_least("threads", threads, 1);
        tastespace::Csr out;
        {
          nb::gil_scoped_release free;
          out = tastespace::build_csr(view(rows), view(columns), n_rows, threads);
        }
        return std::make_tuple(give(std::move(out.offsets)), give(std::move(out.columns)));
      },
      "rows"_a, "columns"_a, "n_rows"_a, "threads"_a);

  m.def(
      "build_csr_with_sources",
      [](Array<std::int32_t> rows, Array<std::int32_t> columns, std::int32_t n_rows, int threads) {
        require_size("columns", columns.size(), rows.size(), "one per row");
        require_least("n_rows", n_rows, 0);
        require_least("threads", threads, 1);
        tastespace::CsrWithSources out;
        {
          nb::gil_scoped_release free;
          out = tastespace::build_csr_with_sources(view(rows), view(columns), n_rows, threads);
        }
        return std::make_tuple(give(std::move(out.csr.offsets)), give(std::move(out.csr.columns)),
                               give(std::move(out.sources)), give(std::move(out.starts)));
      },
      "rows"_a, "columns"_a, "n_rows"_a, "threads"_a);
}

}  // namespace tastespace::bindings
