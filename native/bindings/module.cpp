// The Python module of one SIMD variant.
#include <nanobind/nanobind.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "core/cpu.hpp"

NB_MODULE(TASTESPACE_MODULE, m) {
  m.def("best_simd_variant", &tastespace::best_simd_variant);
  m.def("set_interrupt_check", [](nanobind::object check) {
    tastespace::bindings::interrupt_check = check.release().ptr();  // kept until the process ends
  });
  m.attr("SOURCES") = TASTESPACE_SOURCES;
  tastespace::bindings::bind_settings(m);
  tastespace::bindings::bind_arrays(m);
  tastespace::bindings::bind_training(m);
  tastespace::bindings::bind_negatives(m);
  tastespace::bindings::bind_data(m);
  tastespace::bindings::bind_ranking(m);
  tastespace::bindings::bind_blend(m);
  tastespace::bindings::bind_lists(m);
  tastespace::bindings::bind_reranking(m);
  tastespace::bindings::bind_models(m);
}
