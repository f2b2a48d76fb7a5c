// The only file that knows both Python and the kernels: arrays in, arrays out, the GIL released in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "cpu.hpp"
#include "csr.hpp"
#include "evaluate.hpp"
#include "factorize.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using NewArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NewMatrix = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

template <class A>
auto view(const A& array) {
  return std::span<const typename A::Scalar>(array.data(), array.size());
}

// Keeps a vector alive for as long as NumPy looks at its memory.
template <class T>
nb::capsule owner_of(std::vector<T>* vector) {
  return nb::capsule(vector, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
}

// Hands a vector over to NumPy without a copy.
template <class T>
NewArray<T> give(std::vector<T>&& vector) {
  auto* owned = new std::vector<T>(std::move(vector));
  return NewArray<T>(owned->data(), {owned->size()}, owner_of(owned));
}

// The same as a matrix; T may be a struct of fields of type F, which become the columns.
template <class F, class T>
NewMatrix<F> give_matrix(std::vector<T>&& vector, std::size_t rows, std::size_t columns) {
  auto* owned = new std::vector<T>(std::move(vector));
  return NewMatrix<F>(reinterpret_cast<F*>(owned->data()), {rows, columns}, owner_of(owned));
}

auto give_ranked(tastespace::Ranked&& ranked, std::size_t n_users, std::int64_t k) {
  static_assert(sizeof(tastespace::Place) == 3 * sizeof(std::int32_t));
  const std::size_t n_places = ranked.places.size();
  return std::make_tuple(give_matrix<std::int32_t>(std::move(ranked.places), n_places, 3),
                         give_matrix<std::int32_t>(std::move(ranked.top), n_users, k), ranked.nan_user);
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

  m.def(
      "rank_with_vectors",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         Matrix<float> item_vectors, Array<float> item_terms, float scale, Array<std::int32_t> users,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items,
         Array<std::int64_t> test_offsets, Array<std::int32_t> test_items, std::int64_t k, int threads) {
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          const tastespace::PackedItems items(view(item_vectors), view(item_terms),
                                              static_cast<std::int64_t>(item_vectors.shape(0)),
                                              static_cast<std::int64_t>(item_vectors.shape(1)));
          out = tastespace::rank_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(users),
              {view(excluded_offsets), view(excluded_items)}, {view(test_offsets), view(test_items)}, k, threads);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "item_vectors"_a, "item_terms"_a, "scale"_a,
      "users"_a, "excluded_offsets"_a, "excluded_items"_a, "test_offsets"_a, "test_items"_a, "k"_a,
      "threads"_a);

  m.def(
      "rank_with_scores",
      [](Matrix<float> scores, Array<std::int32_t> users, Array<std::int64_t> excluded_offsets,
         Array<std::int32_t> excluded_items, Array<std::int64_t> test_offsets,
         Array<std::int32_t> test_items, std::int64_t k, int threads) {
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          out = tastespace::rank_with_scores(view(scores), static_cast<std::int64_t>(scores.shape(1)),
                                             view(users), {view(excluded_offsets), view(excluded_items)},
                                             {view(test_offsets), view(test_items)}, k, threads);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "scores"_a, "users"_a, "excluded_offsets"_a, "excluded_items"_a, "test_offsets"_a, "test_items"_a,
      "k"_a, "threads"_a);

  m.def(
      "list_spread",
      [](Matrix<std::int32_t> top, Matrix<float> vectors, Array<std::int64_t> cuts, int threads) {
        std::vector<double> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_spread(view(top), static_cast<std::int64_t>(top.shape(1)), view(vectors),
                                        static_cast<std::int64_t>(vectors.shape(1)), view(cuts), threads);
        }
        return give_matrix<double>(std::move(out), top.shape(0), cuts.size());
      },
      "top"_a, "vectors"_a, "cuts"_a, "threads"_a);
}
