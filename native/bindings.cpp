// The only file that knows both Python and the kernels: arrays in, arrays out, the GIL released in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "cpu.hpp"
#include "csr.hpp"
#include "factorize.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using NewArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
std::span<const T> view(const Array<T>& array) {
  return {array.data(), array.size()};
}

// Hands a vector over to NumPy without a copy.
template <class T>
NewArray<T> give(std::vector<T>&& vector) {
  auto owned = std::make_unique<std::vector<T>>(std::move(vector));
  T* data = owned->data();
  const std::size_t size = owned->size();
  nb::capsule owner(owned.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  owned.release();
  return NewArray<T>(data, {size}, owner);
}

void same_length(std::size_t a, std::size_t b) {
  if (a != b) throw std::invalid_argument("rows and columns differ in length");
}

}  // namespace

NB_MODULE(TASTESPACE_MODULE, m) {
  m.def("best_twin", &tastespace::best_twin);

  m.def(
      "factorize",
      [](Array<std::int64_t> values) {
        tastespace::Factorized out;
        {
          nb::gil_scoped_release free;
          out = tastespace::factorize(view(values));
        }
        return std::make_tuple(give(std::move(out.ids)), give(std::move(out.codes)));
      },
      "values"_a);

  m.def(
      "build_csr",
      [](Array<std::int32_t> rows, Array<std::int32_t> columns, std::int32_t n_rows, int threads) {
        same_length(rows.size(), columns.size());
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
        same_length(rows.size(), columns.size());
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
