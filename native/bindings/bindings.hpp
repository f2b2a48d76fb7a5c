// The parts of the module; each checks types and sizes of arrays and releases the GIL while a kernel runs.
#pragma once

#include <nanobind/nanobind.h>

namespace tastespace::bindings {

void bind_settings(nanobind::module_& m);
void bind_arrays(nanobind::module_& m);
void bind_training(nanobind::module_& m);
void bind_negatives(nanobind::module_& m);
void bind_ranking(nanobind::module_& m);
void bind_lists(nanobind::module_& m);
void bind_reranking(nanobind::module_& m);
void bind_data(nanobind::module_& m);
void bind_models(nanobind::module_& m);
void bind_blend(nanobind::module_& m);

}  // namespace tastespace::bindings
