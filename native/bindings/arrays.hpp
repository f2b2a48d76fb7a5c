// Arrays of NumPy as spans and back, checks of what comes from Python, and kernels that Ctrl-C stops.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/argument_checks.hpp"
#include "core/interrupt.hpp"

namespace tastespace::bindings {

namespace nb = nanobind;
using namespace nb::literals;

// Function of Python that kernels call a few times a second; what it raises ends them. Null: none.
inline PyObject* interrupt_check = nullptr;

// Run a kernel without the GIL. Ctrl-C while it runs: Python's signal handlers are called, the kernel stops within a
// fraction of a second, and what the handler raised (KeyboardInterrupt) is raised here. The same goes for what
// `interrupt_check` raises, where a limit of time is over.
template <class Run>
auto run_interruptibly(Run run) {
  tastespace::Interrupt interrupt([] {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) return true;
    if (interrupt_check == nullptr) return false;
    PyObject* nothing = PyObject_CallNoArgs(interrupt_check);
    Py_XDECREF(nothing);
    return nothing == nullptr;
  });
  const auto without_gil = [&] {
    nb::gil_scoped_release free;
    return run(interrupt);
  };
  if constexpr (std::is_void_v<decltype(run(interrupt))>) {
    without_gil();
    if (PyErr_Occurred()) throw nb::python_error();
  } else {
    auto result = without_gil();
    if (PyErr_Occurred()) throw nb::python_error();
    return result;
  }
}

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

// Keeps a vector alive for as long as a NumPy array uses its memory.
template <class T>
nb::capsule capsule_of(std::vector<T>* vector) {
  return nb::capsule(vector, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
}

// Hands a vector over to NumPy without a copy.
template <class T>
NewArray<T> give(std::vector<T>&& vector) {
  auto* owned = new std::vector<T>(std::move(vector));
  return NewArray<T>(owned->data(), {owned->size()}, capsule_of(owned));
}

// The same as a matrix; T may be a struct of fields of type F, which become the columns.
template <class F, class T>
NewMatrix<F> give_matrix(std::vector<T>&& vector, std::size_t rows, std::size_t columns) {
  auto* owned = new std::vector<T>(std::move(vector));
  return NewMatrix<F>(reinterpret_cast<F*>(owned->data()), {rows, columns}, capsule_of(owned));
}

// Kernels trust the sizes of arrays, offsets and indices: everything that comes from Python is checked here.
using tastespace::require_indices, tastespace::require_least, tastespace::require_lists, tastespace::require_numbers,
    tastespace::require_offsets, tastespace::require_rows, tastespace::require_size;

inline void require_range(std::int64_t first, std::int64_t last, std::int64_t n) {
  if (first < 0 || first > last || last > n)
    throw nb::value_error(("positives " + std::to_string(first) + " ... " + std::to_string(last) +
                           ": expected a range within 0 ... " + std::to_string(n) + ".")
                              .c_str());
}

}  // namespace tastespace::bindings
