// Python bindings of the kernels. They check types and sizes of arrays and release the GIL while a kernel runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "als.hpp"
#include "anchors.hpp"
#include "argument_checks.hpp"
#include "arrow_columns.hpp"
#include "bpr.hpp"
#include "calibrated_lists.hpp"
#include "cpu.hpp"
#include "crc32.hpp"
#include "csr.hpp"
#include "dpcml.hpp"
#include "dpcml_fold_in.hpp"
#include "encode_ids.hpp"
#include "found_lists.hpp"
#include "interest_ranking.hpp"
#include "interrupt.hpp"
#include "item_regression.hpp"
#include "list_columns.hpp"
#include "list_distances.hpp"
#include "list_order.hpp"
#include "list_rules.hpp"
#include "list_texts.hpp"
#include "negatives.hpp"
#include "pair_scores.hpp"
#include "past_reasons.hpp"
#include "row_positions.hpp"
#include "score_matrix.hpp"
#include "user_lists.hpp"
#include "user_ranking.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Run a kernel without the GIL. Ctrl-C while it runs: Python's signal handlers are called, the kernel stops within a
// fraction of a second, and what the handler raised (KeyboardInterrupt) is raised here.
template <class Run>
auto run_interruptibly(Run run) {
  tastespace::Interrupt interrupt([] {
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
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

auto give_ranked(tastespace::Ranked&& ranked, std::size_t n_users, std::int64_t k) {
  static_assert(sizeof(tastespace::TestRank) == 3 * sizeof(std::int32_t));
  const std::size_t n_test_items = ranked.test_ranks.size();
  return std::make_tuple(give_matrix<std::int32_t>(std::move(ranked.test_ranks), n_test_items, 3),
                         give_matrix<std::int32_t>(std::move(ranked.top), n_users, k), ranked.nan_user);
}

auto give_mixed(tastespace::MixedLists&& lists, std::size_t n_users, std::int64_t k) {
  return std::make_tuple(give_matrix<std::int32_t>(std::move(lists.top), n_users, k),
                         give_matrix<std::int32_t>(std::move(lists.interests), n_users, k), lists.nan_user);
}

// Kernels trust the sizes of arrays, offsets and indices: everything that comes from Python is checked here.
using tastespace::require_indices, tastespace::require_least, tastespace::require_lists, tastespace::require_numbers,
    tastespace::require_offsets, tastespace::require_rows, tastespace::require_size;

// The vectors of some users and of all items.
void require_vector_space(const Matrix<float>& user_vectors, const Array<float>& vector_terms,
                          const Array<std::int64_t>& vector_offsets, const tastespace::PackedItems& items,
                          const Array<std::int32_t>& users, int threads) {
  require_least("threads", threads, 1);
  require_size("user_vectors", user_vectors.shape(1), static_cast<std::size_t>(items.dim()),
               "coordinates of a vector, as of items");
  require_size("vector_terms", vector_terms.size(), user_vectors.shape(0), "one per user vector");
  require_rows("vector_offsets", view(vector_offsets), user_vectors.shape(0), view(users));
}

// What a mix of interests needs besides vectors: a weight for each vector of the users, and how to mix.
void require_mix(const Array<double>& weights, const Array<std::int64_t>& vector_offsets,
                 const Array<std::int32_t>& users, double diversity, std::int64_t depth, std::int64_t k) {
  std::size_t n = 0;
  for (const std::int32_t user : view(users)) n += view(vector_offsets)[user + 1] - view(vector_offsets)[user];
  require_size("weights", weights.size(), n, "one per vector of the users");
  require_numbers("weights", view(weights));
  require_numbers("diversity", std::span<const double>(&diversity, 1));
  require_least("depth", depth, 0);
  require_least("k", k, 0);
}

void require_range(std::int64_t first, std::int64_t last, std::int64_t n) {
  if (first < 0 || first > last || last > n)
    throw nb::value_error(("positives " + std::to_string(first) + " ... " + std::to_string(last) +
                           ": expected a range within 0 ... " + std::to_string(n) + ".")
                              .c_str());
}

// An array that a training run holds: the Python object, which is given back unchanged, and its memory.
template <class T>
struct Held {
  nb::object object;
  T* data = nullptr;
  std::vector<std::int64_t> shape;

  std::span<T> span() const { return {data, size()}; }
  std::size_t size() const {
    return static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  }
  std::int64_t rows() const { return shape[0]; }
};

template <class T>
constexpr const char* type_name() {
  using V = std::remove_const_t<T>;
  if constexpr (std::is_same_v<V, float>) return "float32";
  if constexpr (std::is_same_v<V, std::int32_t>) return "int32";
  if constexpr (std::is_same_v<V, std::int64_t>) return "int64";
}

// "float64 of shape (3, 4)", or the type of what is no array.
std::string description(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value, "shape"))
    return nb::cast<std::string>(value.type().attr("__name__"));
  const auto text = [&](const char* name) { return nb::cast<std::string>(value.attr(name).attr("__str__")()); };
  return text("dtype") + " of shape " + text("shape");
}

// An array of exactly this type, never a converted copy: what is learned would be written to the copy and lost.
template <class T>
Held<T> hold(const char* name, nb::object value, std::size_t n_dims = 0) {
  nb::ndarray<T, nb::c_contig, nb::device::cpu> array;
  if (!nb::try_cast(value, array, false) || (n_dims && array.ndim() != n_dims)) {
    const std::string kind = n_dims ? std::to_string(n_dims) + "-dimensional, " : "";
    throw nb::type_error((std::string(name) + ": expected a " + kind + "C-contiguous " +
                          (std::is_const_v<T> ? "" : "and writable ") + "array of " + type_name<T>() + ", given " +
                          description(value) + ".")
                             .c_str());
  }
  Held<T> held{std::move(value), array.data(), {}};
  for (std::size_t d = 0; d < array.ndim(); ++d) held.shape.push_back(static_cast<std::int64_t>(array.shape(d)));
  return held;
}

template <class T>
void require_size(const char* name, const Held<T>& array, std::int64_t expected, const char* meaning) {
  if (static_cast<std::int64_t>(array.size()) != expected)
    throw nb::value_error((std::string(name) + ": expected " + std::to_string(expected) + " values (" + meaning +
                           "), given " + std::to_string(array.size()) + ".")
                              .c_str());
}

// The arrays of OptimizerState.
struct OptimizerArrays {
  Held<float> first, second;
  Held<std::int32_t> steps;

  tastespace::OptimizerState spans() const { return {first.span(), second.span(), steps.span()}; }

  // What the optimizer needs for rows of this array must be there.
  template <class T>
  void require(const char* side, tastespace::Optimizer optimizer, const Held<T>& values) const {
    const auto n = static_cast<std::int64_t>(values.size());
    const std::string name = std::string(side) + "_optimizer.";
    if (optimizer != tastespace::Optimizer::sgd) require_size((name + "first").c_str(), first, n, "one per coordinate");
    if (optimizer != tastespace::Optimizer::adam) return;
    require_size((name + "second").c_str(), second, n, "one per coordinate");
    require_size((name + "steps").c_str(), steps, values.rows(), "one per row");
  }
};

// The arrays of DpcmlData.
struct DpcmlDataArrays {
  Held<const std::int64_t> offsets;
  Held<const std::int32_t> positives;
  Held<const float> alias_keep;
  Held<const std::int32_t> alias_other;
  Held<const std::int64_t> vector_offsets;
  Held<const float> loss_weight, dcrs_weight;
  Held<const std::int32_t> n_beta;
  Held<const std::int64_t> visited{nb::object(), nullptr, {0}};
  mutable std::int64_t n_items_checked = -1;  // the number of items that positives are known to lie within
  mutable tastespace::PositiveIndexArrays index;

  tastespace::DpcmlData spans() const {
    return {offsets.span(),        positives.span(),  {alias_keep.span(), alias_other.span()},
            vector_offsets.span(), loss_weight.span(), dcrs_weight.span(),
            n_beta.span(),         visited.span(),     index.view()};
  }
};

// What kernels that read interactions rely on: one pass over them, for the first of many calls.
template <class Data, class State>
void require_positives(const Data& data, const State& state) {
  if (data.n_items_checked == state.item_vectors.rows()) return;
  require_offsets("offsets", data.offsets.span(), data.positives.size());
  require_indices("positives", data.positives.span(), state.item_vectors.rows());
  data.n_items_checked = state.item_vectors.rows();
}

// For kernels that go through all positives again and again; after `require_positives`.
template <class Data, class State>
void build_index(const Data& data, const State& state) {
  const auto n_items = static_cast<std::int32_t>(state.item_vectors.rows());
  if (!data.index.is_for(n_items)) data.index.build(data.offsets.span(), data.positives.span(), n_items);
}

// The arrays of AnchorState.
struct AnchorArrays {
  Held<std::int32_t> assignments;
  Held<float> snapshot, sums;
  Held<std::int32_t> counts;

  tastespace::AnchorState spans() const { return {assignments.span(), snapshot.span(), sums.span(), counts.span()}; }
};

// The arrays of DpcmlState.
struct DpcmlStateArrays {
  Held<float> user_vectors, item_vectors, gamma;
  OptimizerArrays user_optimizer, item_optimizer;
  std::optional<AnchorArrays> anchors;

  tastespace::DpcmlState spans() const {
    return {user_vectors.span(),    item_vectors.span(),    item_vectors.shape[1],
            user_optimizer.spans(), item_optimizer.spans(), gamma.span(),
            anchors ? anchors->spans() : tastespace::AnchorState{}};
  }
};

// The kernels do not check the sizes of arrays: they are checked here.
void require_vectors(const DpcmlDataArrays& data, const DpcmlStateArrays& state) {
  const std::int64_t n_users = data.offsets.rows() - 1, dim = state.item_vectors.shape[1];
  require_size("vector_offsets", data.vector_offsets, n_users + 1, "one per user and one more");
  require_offsets("vector_offsets", data.vector_offsets.span(), state.user_vectors.rows());
  require_size("user_vectors", state.user_vectors, data.vector_offsets.data[n_users] * dim,
               "vectors of all users times dim");
}

// What a kernel with anchored vectors needs.
void require_anchors(const DpcmlDataArrays& data, const DpcmlStateArrays& state) {
  if (!state.anchors) throw nb::value_error("anchors: expected an AnchorState, because settings.anchor is above 0.");
  const auto n_item_values = static_cast<std::int64_t>(state.item_vectors.size());
  const auto n_user_values = static_cast<std::int64_t>(state.user_vectors.size());
  require_size("assignments", state.anchors->assignments, data.positives.rows(), "one per positive");
  require_size("snapshot", state.anchors->snapshot, n_item_values, "as item_vectors");
  require_size("sums", state.anchors->sums, n_user_values, "as user_vectors");
  require_size("counts", state.anchors->counts, state.user_vectors.rows(), "one per user vector");
}

void require_sizes(const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& how) {
  const std::int64_t n_users = data.offsets.rows() - 1, n_positives = data.positives.rows();
  const std::int64_t n_items = state.item_vectors.rows();
  require_vectors(data, state);
  if (how.anchor > 0.0f) require_anchors(data, state);
  require_size("loss_weight", data.loss_weight, n_users, "one per user");
  require_size("dcrs_weight", data.dcrs_weight, n_users, "one per user");
  if (data.n_beta.size()) require_size("n_beta", data.n_beta, n_users, "one per user");
  if (data.alias_keep.size()) require_size("alias_keep", data.alias_keep, n_items, "one per item");
  require_size("alias_other", data.alias_other, static_cast<std::int64_t>(data.alias_keep.size()), "as alias_keep");
  require_indices("alias_other", data.alias_other.span(), n_items);
  if (how.sampler == tastespace::Sampler::differentiable)
    require_size("gamma", state.gamma, n_positives, "one per positive");
  state.user_optimizer.require("user", how.optimizer.optimizer, state.user_vectors);
}

// The arrays of BprData.
struct BprDataArrays {
  Held<const std::int64_t> offsets;
  Held<const std::int32_t> positives;
  Held<const std::int64_t> visited{nb::object(), nullptr, {0}};
  mutable std::int64_t n_items_checked = -1;  // the number of items that positives are known to lie within
  mutable tastespace::PositiveIndexArrays index;

  tastespace::BprData spans() const { return {offsets.span(), positives.span(), visited.span(), index.view()}; }
};

// The arrays of BprState.
struct BprStateArrays {
  Held<float> user_vectors, item_vectors, bias;
  OptimizerArrays user_optimizer, item_optimizer, bias_optimizer;

  tastespace::BprState spans() const {
    return {user_vectors.span(),           item_vectors.span(),           bias.span(),           item_vectors.shape[1],
            user_optimizer.spans(), item_optimizer.spans(), bias_optimizer.spans()};
  }
};

void require_sizes(const BprDataArrays& data, const BprStateArrays& state, const tastespace::BprSettings& how) {
  const std::int64_t n_users = data.offsets.rows() - 1;
  require_size("user_vectors", state.user_vectors, n_users * state.item_vectors.shape[1], "one row per user");
  require_size("bias", state.bias, state.item_vectors.rows(), "one per item");
  state.user_optimizer.require("user", how.optimizer.optimizer, state.user_vectors);
}

// Which positives an epoch goes through from now on; none: all.
template <class Data>
void visit(Data& data, nb::object visited) {
  Held<const std::int64_t> held = hold<const std::int64_t>("visited", std::move(visited), 1);
  std::int64_t before = -1;
  for (const std::int64_t at : held.span()) {
    if (at < 0 || at >= data.positives.rows())
      throw nb::value_error(("visited: expected positions of positives, 0 ... " +
                             std::to_string(data.positives.rows() - 1) + ", given " + std::to_string(at) + ".")
                                .c_str());
    if (at <= before)
      throw nb::value_error(("visited: expected ascending positions, given " + std::to_string(at) + " after " +
                             std::to_string(before) + ".")
                                .c_str());
    before = at;
  }
  data.visited = std::move(held);
}

// The letter of Arrow for a type of NumPy.
const char* arrow_format(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  const bool is_signed = type.code == static_cast<std::uint8_t>(Code::Int);
  if (is_signed || type.code == static_cast<std::uint8_t>(Code::UInt)) switch (type.bits) {
      case 8: return is_signed ? "c" : "C";
      case 16: return is_signed ? "s" : "S";
      case 32: return is_signed ? "i" : "I";
      case 64: return is_signed ? "l" : "L";
    }
  if (type.code == static_cast<std::uint8_t>(Code::Float) && type.bits == 32) return "f";
  if (type.code == static_cast<std::uint8_t>(Code::Float) && type.bits == 64) return "g";
  throw nb::type_error("columns: expected arrays of whole numbers, float32 or float64.");
}

tastespace::ArrowColumns arrow_columns(const nb::dict& columns) {
  using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  constexpr std::size_t kLarge = 1 << 20;  // bytes that are copied without the GIL
  std::optional<tastespace::ArrowColumns> out;
  std::size_t length = 0;
  for (const auto [name, value] : columns) {
    const auto array = nb::cast<AnyArray>(value);
    if (!out) out.emplace(static_cast<std::int64_t>(length = array.size()));
    require_size("columns", array.size(), length, "as long as the first column");
    std::byte* to = out->add(nb::cast<std::string>(name), arrow_format(array.dtype()), array.nbytes());
    std::optional<nb::gil_scoped_release> free;
    if (array.nbytes() >= kLarge) free.emplace();
    if (array.nbytes() > 0) std::memcpy(to, array.data(), array.nbytes());
  }
  if (!out) throw nb::value_error("columns: expected one or more.");
  return std::move(*out);
}

// Arrays of a request for lists, which are held for as long as lists may be asked for.
struct OneUserLists {
  using AnyArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  Matrix<float> user_vectors;
  Array<float> vector_terms;
  Array<std::int64_t> vector_offsets;
  nb::object packed;
  Matrix<float> item_vectors;
  Array<float> item_bias;
  Array<std::int64_t> excluded_offsets;
  Array<std::int32_t> excluded_items;
  std::optional<Array<std::uint8_t>> allowed;
  std::optional<AnyArray> user_ids, item_ids;
  std::optional<Array<std::int64_t>> text_offsets;
  std::optional<Array<std::uint8_t>> text;
  tastespace::ListSource source;

  static tastespace::IdColumn numbers(const AnyArray& ids) {
    return {arrow_format(ids.dtype()),
            {static_cast<const std::byte*>(ids.data()), ids.nbytes()},
            static_cast<std::size_t>(ids.itemsize()), {}, {}};
  }

  nb::object columns(std::int32_t user, std::optional<std::string_view> user_text) const {
    const std::span<const std::int32_t> users(&user, 1);
    require_rows("vector_offsets", view(vector_offsets), user_vectors.shape(0), users);
    require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), users,
                  source.items->n_items());
    if (user_ids.has_value() == user_text.has_value())
      throw std::invalid_argument("user_text: expected the id of the user where ids are text, and only there.");
    std::optional<tastespace::ArrowColumns> found;
    {
      nb::gil_scoped_release free;
      found = tastespace::list_columns(source, user, user_text.value_or(std::string_view()));
    }
    return found ? nb::cast(std::move(*found)) : nb::none();
  }
};

// A structure of Arrow in a capsule that releases it unless somebody has taken it over.
template <class Structure>
nb::object arrow_capsule(std::unique_ptr<Structure> structure, const char* name) {
  PyObject* capsule = PyCapsule_New(structure.get(), name, [](PyObject* self) {
    auto* held = static_cast<Structure*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (held->release) held->release(held);
    delete held;
  });
  if (!capsule) throw nb::python_error();
  structure.release();
  return nb::steal(capsule);
}

void bind_settings(nb::module_& m) {
  using namespace tastespace;
  // Enums are passed without conversion: a number in their place is a mistake.
  nb::enum_<Sampler>(m, "Sampler")
      .value("ALL", Sampler::all)
      .value("TWO_STAGE", Sampler::two_stage)
      .value("HARDEST", Sampler::hardest)
      .value("DIFFERENTIABLE", Sampler::differentiable);
  nb::enum_<GammaRule>(m, "GammaRule").value("GRADIENT", GammaRule::gradient).value("AVERAGE", GammaRule::average);
  nb::enum_<DcrsForm>(m, "DcrsForm")
      .value("OFF", DcrsForm::off)
      .value("MEAN", DcrsForm::mean)
      .value("PAIRS", DcrsForm::pairs);
  nb::enum_<Region>(m, "Region")
      .value("UNBOUNDED", Region::unbounded)
      .value("BALL", Region::ball)
      .value("SPHERE", Region::sphere);
  nb::enum_<Optimizer>(m, "Optimizer")
      .value("SGD", Optimizer::sgd)
      .value("ADAGRAD", Optimizer::adagrad)
      .value("ADAM", Optimizer::adam);

  nb::class_<OptimizerSettings>(m, "OptimizerSettings")
      .def(
          "__init__",
          [](OptimizerSettings* self, Optimizer optimizer, float learning_rate, float beta1, float beta2,
             float epsilon) { new (self) OptimizerSettings{optimizer, learning_rate, beta1, beta2, epsilon}; },
          nb::kw_only(), "optimizer"_a.noconvert(), "learning_rate"_a, "beta1"_a = 0.9f, "beta2"_a = 0.999f,
          "epsilon"_a = 1e-8f)
      .def_rw("optimizer", &OptimizerSettings::optimizer)
      .def_rw("learning_rate", &OptimizerSettings::learning_rate)
      .def_rw("beta1", &OptimizerSettings::beta1)
      .def_rw("beta2", &OptimizerSettings::beta2)
      .def_rw("epsilon", &OptimizerSettings::epsilon);

  nb::class_<DpcmlSettings>(m, "DpcmlSettings")
      .def(
          "__init__",
          [](DpcmlSettings* self, Sampler sampler, std::int64_t n_negatives, std::int64_t n_hardest, float margin,
             float distance_scale, GammaRule gamma_rule, float gamma_rate, DcrsForm dcrs, float spread_weight,
             float min_spread, float max_spread, Region user_region, Region item_region, float radius,
             OptimizerSettings optimizer, std::int64_t block_size, float anchor) {
            new (self) DpcmlSettings{sampler,    n_negatives, n_hardest,     margin,     distance_scale, gamma_rule,
                                     gamma_rate, dcrs,        spread_weight, min_spread, max_spread,     user_region,
                                     item_region, radius,     optimizer,     block_size, anchor};
          },
          nb::kw_only(), "sampler"_a.noconvert(), "n_negatives"_a, "n_hardest"_a, "margin"_a, "distance_scale"_a,
          "gamma_rule"_a.noconvert(), "gamma_rate"_a, "dcrs"_a.noconvert(), "spread_weight"_a, "min_spread"_a,
          "max_spread"_a, "user_region"_a.noconvert(), "item_region"_a.noconvert(), "radius"_a, "optimizer"_a,
          "block_size"_a, "anchor"_a = 0.0f)
      .def_rw("sampler", &DpcmlSettings::sampler)
      .def_rw("n_negatives", &DpcmlSettings::n_negatives)
      .def_rw("n_hardest", &DpcmlSettings::n_hardest)
      .def_rw("margin", &DpcmlSettings::margin)
      .def_rw("distance_scale", &DpcmlSettings::distance_scale)
      .def_rw("gamma_rule", &DpcmlSettings::gamma_rule)
      .def_rw("gamma_rate", &DpcmlSettings::gamma_rate)
      .def_rw("dcrs", &DpcmlSettings::dcrs)
      .def_rw("spread_weight", &DpcmlSettings::spread_weight)
      .def_rw("min_spread", &DpcmlSettings::min_spread)
      .def_rw("max_spread", &DpcmlSettings::max_spread)
      .def_rw("user_region", &DpcmlSettings::user_region)
      .def_rw("item_region", &DpcmlSettings::item_region)
      .def_rw("radius", &DpcmlSettings::radius)
      .def_rw("optimizer", &DpcmlSettings::optimizer)
      .def_rw("block_size", &DpcmlSettings::block_size)
      .def_rw("anchor", &DpcmlSettings::anchor);

  nb::class_<BprSettings>(m, "BprSettings")
      .def(
          "__init__",
          [](BprSettings* self, float regularization, float bias_regularization, OptimizerSettings optimizer,
             std::int64_t block_size) {
            new (self) BprSettings{regularization, bias_regularization, optimizer, block_size};
          },
          nb::kw_only(), "regularization"_a, "bias_regularization"_a, "optimizer"_a, "block_size"_a)
      .def_rw("regularization", &BprSettings::regularization)
      .def_rw("bias_regularization", &BprSettings::bias_regularization)
      .def_rw("optimizer", &BprSettings::optimizer)
      .def_rw("block_size", &BprSettings::block_size);

  nb::class_<DpcmlTotals>(m, "DpcmlTotals")
      .def(nb::init<>())
      .def("__add__", &DpcmlTotals::operator+)
      .def_ro("loss", &DpcmlTotals::loss)
      .def_ro("dcrs", &DpcmlTotals::dcrs)
      .def_ro("n_steps", &DpcmlTotals::n_steps)
      .def_ro("n_skipped", &DpcmlTotals::n_skipped)
      .def_ro("n_pair_gradients", &DpcmlTotals::n_pair_gradients)
      .def_ro("seconds", &DpcmlTotals::seconds)
      .def_ro("serial_seconds", &DpcmlTotals::serial_seconds);

  nb::class_<BprTotals>(m, "BprTotals")
      .def(nb::init<>())
      .def("__add__", &BprTotals::operator+)
      .def_ro("loss", &BprTotals::loss)
      .def_ro("n_correct", &BprTotals::n_correct)
      .def_ro("n_steps", &BprTotals::n_steps);

  nb::class_<PositiveStep>(m, "PositiveStep")
      .def_ro("loss", &PositiveStep::loss)
      .def_ro("dcrs", &PositiveStep::dcrs)
      .def_ro("gamma_slope", &PositiveStep::gamma_slope)
      .def_prop_ro(
          "negatives", [](const PositiveStep& self) { return give(std::vector(self.negatives)); },
          nb::rv_policy::move);
}

// A property that gives the array back as it was passed in.
template <class C, class T>
auto array_of(Held<T> C::*member) {
  return [member](const C& self) { return (self.*member).object; };
}

void bind_arrays(nb::module_& m) {
  nb::class_<OptimizerArrays>(m, "OptimizerState")
      .def(
          "__init__",
          [](OptimizerArrays* self, nb::object first, nb::object second, nb::object steps) {
            new (self) OptimizerArrays{hold<float>("first", first), hold<float>("second", second),
                                       hold<std::int32_t>("steps", steps, 1)};
          },
          nb::kw_only(), "first"_a, "second"_a, "steps"_a)
      .def_prop_ro("first", array_of(&OptimizerArrays::first))
      .def_prop_ro("second", array_of(&OptimizerArrays::second))
      .def_prop_ro("steps", array_of(&OptimizerArrays::steps));

  nb::class_<DpcmlDataArrays>(m, "DpcmlData")
      .def(
          "__init__",
          [](DpcmlDataArrays* self, nb::object offsets, nb::object positives, nb::object alias_keep,
             nb::object alias_other, nb::object vector_offsets, nb::object loss_weight, nb::object dcrs_weight,
             nb::object n_beta) {
            new (self) DpcmlDataArrays{hold<const std::int64_t>("offsets", offsets, 1),
                                       hold<const std::int32_t>("positives", positives, 1),
                                       hold<const float>("alias_keep", alias_keep, 1),
                                       hold<const std::int32_t>("alias_other", alias_other, 1),
                                       hold<const std::int64_t>("vector_offsets", vector_offsets, 1),
                                       hold<const float>("loss_weight", loss_weight, 1),
                                       hold<const float>("dcrs_weight", dcrs_weight, 1),
                                       hold<const std::int32_t>("n_beta", n_beta, 1)};
          },
          nb::kw_only(), "offsets"_a, "positives"_a, "alias_keep"_a, "alias_other"_a, "vector_offsets"_a,
          "loss_weight"_a, "dcrs_weight"_a, "n_beta"_a)
      .def("visit", &visit<DpcmlDataArrays>, "visited"_a);

  nb::class_<AnchorArrays>(m, "AnchorState")
      .def(
          "__init__",
          [](AnchorArrays* self, nb::object assignments, nb::object snapshot, nb::object sums, nb::object counts) {
            new (self) AnchorArrays{hold<std::int32_t>("assignments", assignments, 1),
                                    hold<float>("snapshot", snapshot, 2), hold<float>("sums", sums, 2),
                                    hold<std::int32_t>("counts", counts, 1)};
          },
          nb::kw_only(), "assignments"_a, "snapshot"_a, "sums"_a, "counts"_a)
      .def_prop_ro("assignments", array_of(&AnchorArrays::assignments))
      .def_prop_ro("snapshot", array_of(&AnchorArrays::snapshot))
      .def_prop_ro("sums", array_of(&AnchorArrays::sums))
      .def_prop_ro("counts", array_of(&AnchorArrays::counts));

  nb::class_<DpcmlStateArrays>(m, "DpcmlState")
      .def(
          "__init__",
          [](DpcmlStateArrays* self, nb::object user_vectors, nb::object item_vectors, nb::object gamma,
             const OptimizerArrays& user_optimizer, const OptimizerArrays& item_optimizer,
             std::optional<AnchorArrays> anchors) {
            new (self) DpcmlStateArrays{hold<float>("user_vectors", user_vectors, 2),
                                        hold<float>("item_vectors", item_vectors, 2),
                                        hold<float>("gamma", gamma, 1), user_optimizer, item_optimizer,
                                        std::move(anchors)};
          },
          nb::kw_only(), "user_vectors"_a, "item_vectors"_a, "gamma"_a, "user_optimizer"_a, "item_optimizer"_a,
          "anchors"_a = nb::none())
      .def_prop_ro("user_vectors", array_of(&DpcmlStateArrays::user_vectors))
      .def_prop_ro("item_vectors", array_of(&DpcmlStateArrays::item_vectors))
      .def_prop_ro("gamma", array_of(&DpcmlStateArrays::gamma))
      .def_ro("anchors", &DpcmlStateArrays::anchors)
      .def_ro("user_optimizer", &DpcmlStateArrays::user_optimizer)
      .def_ro("item_optimizer", &DpcmlStateArrays::item_optimizer);

  nb::class_<BprDataArrays>(m, "BprData")
      .def(
          "__init__",
          [](BprDataArrays* self, nb::object offsets, nb::object positives) {
            new (self) BprDataArrays{hold<const std::int64_t>("offsets", offsets, 1),
                                     hold<const std::int32_t>("positives", positives, 1)};
          },
          nb::kw_only(), "offsets"_a, "positives"_a)
      .def("visit", &visit<BprDataArrays>, "visited"_a);

  nb::class_<BprStateArrays>(m, "BprState")
      .def(
          "__init__",
          [](BprStateArrays* self, nb::object user_vectors, nb::object item_vectors, nb::object bias,
             const OptimizerArrays& user_optimizer, const OptimizerArrays& item_optimizer,
             const OptimizerArrays& bias_optimizer) {
            new (self) BprStateArrays{hold<float>("user_vectors", user_vectors, 2),
                                      hold<float>("item_vectors", item_vectors, 2),
                                      hold<float>("bias", bias, 1),
                                      user_optimizer,
                                      item_optimizer,
                                      bias_optimizer};
          },
          nb::kw_only(), "user_vectors"_a, "item_vectors"_a, "bias"_a, "user_optimizer"_a, "item_optimizer"_a,
          "bias_optimizer"_a)
      .def_prop_ro("user_vectors", array_of(&BprStateArrays::user_vectors))
      .def_prop_ro("item_vectors", array_of(&BprStateArrays::item_vectors))
      .def_prop_ro("bias", array_of(&BprStateArrays::bias))
      .def_ro("user_optimizer", &BprStateArrays::user_optimizer)
      .def_ro("item_optimizer", &BprStateArrays::item_optimizer)
      .def_ro("bias_optimizer", &BprStateArrays::bias_optimizer);
}

void bind_training(nb::module_& m) {
  m.def(
      "train_dpcml",
      [](const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& settings,
         std::uint64_t seed, std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
        require_positives(data, state);
        require_sizes(data, state, settings);
        state.item_optimizer.require("item", settings.optimizer.optimizer, state.item_vectors);
        build_index(data, state);
        require_range(first, last, data.visited.size() ? data.visited.rows() : data.positives.rows());
        tastespace::DpcmlState spans = state.spans();
        return run_interruptibly([&](tastespace::Interrupt& interrupt) {
          return tastespace::train_dpcml(data.spans(), spans, settings, seed, epoch, first, last, threads, interrupt);
        });
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "seed"_a, "epoch"_a, "first"_a, "last"_a, "threads"_a);

  m.def(
      "refresh_anchors",
      [](const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& settings,
         std::int64_t iterations, int threads) {
        require_positives(data, state);
        require_vectors(data, state);
        require_anchors(data, state);
        nb::gil_scoped_release free;
        tastespace::DpcmlState spans = state.spans();
        tastespace::refresh_anchors(data.spans(), spans, settings, iterations, threads);
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "iterations"_a, "threads"_a);

  m.def(
      "anchored_user_vectors",
      [](const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& settings,
         bool repeat_vectors, int threads) {
        require_positives(data, state);
        require_vectors(data, state);
        require_anchors(data, state);
        std::vector<float> out(state.user_vectors.size());
        {
          nb::gil_scoped_release free;
          tastespace::anchored_user_vectors(data.spans(), state.spans(), settings, repeat_vectors, out, threads);
        }
        return give_matrix<float>(std::move(out), state.user_vectors.rows(), state.item_vectors.shape[1]);
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "repeat_vectors"_a = false, "threads"_a);

  m.def(
      "fold_in_dpcml",
      [](const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& settings,
         nb::object mean_user_vectors, std::uint64_t seed, std::int64_t epochs, std::int64_t average, int threads) {
        require_positives(data, state);
        require_sizes(data, state, settings);
        const Held<float> means = hold<float>("mean_user_vectors", std::move(mean_user_vectors), 2);
        const auto n_values = static_cast<std::int64_t>(state.user_vectors.size());
        require_size("mean_user_vectors", means, n_values, "as user_vectors");
        tastespace::DpcmlState spans = state.spans();
        run_interruptibly([&](tastespace::Interrupt& interrupt) {
          tastespace::fold_in_dpcml(data.spans(), spans, settings, seed, epochs, average, means.span(), threads,
                                    interrupt);
        });
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "mean_user_vectors"_a, "seed"_a, "epochs"_a, "average"_a,
      "threads"_a);

  m.def(
      "dpcml_loss_and_gradient",
      [](const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& settings,
         std::uint64_t seed, std::uint64_t epoch, std::int64_t positive_index, nb::object user_gradient,
         nb::object item_gradient) {
        require_positives(data, state);
        require_sizes(data, state, settings);
        require_range(positive_index, positive_index + 1, data.positives.rows());
        const Held<float> of_users = hold<float>("user_gradient", std::move(user_gradient), 2);
        const Held<float> of_items = hold<float>("item_gradient", std::move(item_gradient), 2);
        const auto n_user_values = static_cast<std::int64_t>(state.user_vectors.size());
        const auto n_item_values = static_cast<std::int64_t>(state.item_vectors.size());
        require_size("user_gradient", of_users, n_user_values, "as user_vectors");
        require_size("item_gradient", of_items, n_item_values, "as item_vectors");
        return tastespace::dpcml_loss_and_gradient(data.spans(), state.spans(), settings, seed, epoch,
                                                   positive_index, of_users.span(), of_items.span());
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "seed"_a, "epoch"_a, "positive_index"_a, "user_gradient"_a,
      "item_gradient"_a);

  m.def(
      "train_bpr",
      [](const BprDataArrays& data, const BprStateArrays& state, const tastespace::BprSettings& settings,
         std::uint64_t seed, std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
        require_positives(data, state);
        require_sizes(data, state, settings);
        state.item_optimizer.require("item", settings.optimizer.optimizer, state.item_vectors);
        state.bias_optimizer.require("bias", settings.optimizer.optimizer, state.bias);
        build_index(data, state);
        require_range(first, last, data.visited.size() ? data.visited.rows() : data.positives.rows());
        tastespace::BprState spans = state.spans();
        return run_interruptibly([&](tastespace::Interrupt& interrupt) {
          return tastespace::train_bpr(data.spans(), spans, settings, seed, epoch, first, last, threads, interrupt);
        });
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "seed"_a, "epoch"_a, "first"_a, "last"_a, "threads"_a);

  m.def(
      "fold_in_bpr",
      [](const BprDataArrays& data, const BprStateArrays& state, const tastespace::BprSettings& settings,
         nb::object mean_user_vectors, std::uint64_t seed, std::int64_t epochs, std::int64_t average, int threads) {
        require_positives(data, state);
        require_sizes(data, state, settings);
        const Held<float> means = hold<float>("mean_user_vectors", std::move(mean_user_vectors), 2);
        const auto n_values = static_cast<std::int64_t>(state.user_vectors.size());
        require_size("mean_user_vectors", means, n_values, "as user_vectors");
        tastespace::BprState spans = state.spans();
        run_interruptibly([&](tastespace::Interrupt& interrupt) {
          tastespace::fold_in_bpr(data.spans(), spans, settings, seed, epochs, average, means.span(), threads,
                                  interrupt);
        });
      },
      "data"_a, "state"_a, "settings"_a, nb::kw_only(), "mean_user_vectors"_a, "seed"_a, "epochs"_a, "average"_a,
      "threads"_a);
}

}  // namespace

NB_MODULE(TASTESPACE_MODULE, m) {
  m.def("best_simd_variant", &tastespace::best_simd_variant);
  m.attr("SOURCES") = TASTESPACE_SOURCES;
  bind_settings(m);
  bind_arrays(m);
  bind_training(m);

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

  nb::class_<tastespace::ArrowColumns>(m, "ArrowColumns")
      .def(
          "__init__",
          [](tastespace::ArrowColumns* self, const nb::dict& columns) {
            new (self) tastespace::ArrowColumns(arrow_columns(columns));
          },
          "columns"_a)
      .def(
          "__arrow_c_array__",
          [](tastespace::ArrowColumns& self, nb::object) {
            if (self.n_columns() == 0) throw nb::value_error("the columns were handed over before.");
            auto schema = std::make_unique<tastespace::ArrowSchema>();
            auto array = std::make_unique<tastespace::ArrowArray>();
            self.move_to(schema.get(), array.get());
            nb::object first = arrow_capsule(std::move(schema), "arrow_schema");
            return nb::make_tuple(first, arrow_capsule(std::move(array), "arrow_array"));
          },
          "requested_schema"_a = nb::none());

  nb::class_<tastespace::PackedItems>(m, "PackedItems")
      .def(
          "__init__",
          [](tastespace::PackedItems* self, Matrix<float> vectors, Array<float> terms) {
            require_size("terms", terms.size(), vectors.shape(0), "one per item");
            nb::gil_scoped_release free;
            new (self) tastespace::PackedItems(view(vectors), view(terms), static_cast<std::int64_t>(vectors.shape(0)),
                                               static_cast<std::int64_t>(vectors.shape(1)));
          },
          "vectors"_a, "terms"_a)
      .def_prop_ro("n_items", &tastespace::PackedItems::n_items)
      .def_prop_ro("dim", &tastespace::PackedItems::dim);

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
      "rank_with_vectors",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Array<std::int32_t> users,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items,
         Array<std::int64_t> test_offsets, Array<std::int32_t> test_items, std::int64_t k, int threads,
         std::optional<Array<std::uint8_t>> allowed) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_lists("test_offsets", "test_items", view(test_offsets), view(test_items), view(users), items.n_items());
        require_least("k", k, 0);
        std::span<const std::uint8_t> mask;
        if (allowed) {
          require_size("allowed", allowed->size(), static_cast<std::size_t>(items.n_items()), "one per item");
          mask = view(*allowed);
        }
        tastespace::Ranked out;
        {
          nb::gil_scoped_release free;
          out = tastespace::rank_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(users),
              {view(excluded_offsets), view(excluded_items)}, {view(test_offsets), view(test_items)}, k, threads, mask);
        }
        return give_ranked(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
      "users"_a, "excluded_offsets"_a, "excluded_items"_a, "test_offsets"_a, "test_items"_a, "k"_a,
      "threads"_a, "allowed"_a = nb::none());

  m.def(
      "list_with_vectors",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, std::optional<Array<std::int32_t>> item_rows, Array<std::int32_t> users,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items, std::int64_t k, int threads,
         std::optional<Array<std::uint8_t>> allowed) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_least("k", k, 0);
        require_size("item_vectors", item_vectors.shape(1), static_cast<std::size_t>(items.dim()),
                     "coordinates of a vector, as of users");
        if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), item_vectors.shape(0), "one per item");
        std::span<const std::uint8_t> mask;
        if (allowed) {
          require_size("allowed", allowed->size(), static_cast<std::size_t>(items.n_items()), "one per item");
          mask = view(*allowed);
        }
        std::span<const std::int32_t> rows;
        if (item_rows) {
          require_size("item_rows", item_rows->size(), static_cast<std::size_t>(items.n_items()), "one per item");
          require_indices("item_rows", view(*item_rows), static_cast<std::int64_t>(item_vectors.shape(0)));
          rows = view(*item_rows);
        } else {
          require_size("item_vectors", item_vectors.shape(0), static_cast<std::size_t>(items.n_items()), "rows, as items");
        }
        tastespace::UserLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale,
              {view(item_vectors), {by_distance, view(item_bias)}, rows}, view(users),
              {view(excluded_offsets), view(excluded_items)}, k, threads, mask);
        }
        return std::make_tuple(give_matrix<std::int32_t>(std::move(out.top), users.size(), k),
                               give_matrix<float>(std::move(out.scores), users.size(), k),
                               give_matrix<std::int32_t>(std::move(out.interests), users.size(), k), out.n_found,
                               out.nan_user);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a, "item_vectors"_a, "by_distance"_a,
      "item_bias"_a, "item_rows"_a.none(), "users"_a, "excluded_offsets"_a, "excluded_items"_a, "k"_a, "threads"_a,
      "allowed"_a = nb::none());

  m.def(
      "list_found",
      [](Matrix<float> user_vectors, Array<std::int64_t> vector_offsets, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, Array<std::int32_t> users, Matrix<std::int64_t> found,
         Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items, std::int64_t k, int threads) {
        const auto n_items = static_cast<std::int64_t>(item_vectors.shape(0));
        require_size("item_vectors", item_vectors.shape(1), user_vectors.shape(1), "coordinates, as of users");
        require_rows("vector_offsets", view(vector_offsets), user_vectors.shape(0), view(users));
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      n_items);
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), item_vectors.shape(0), "one per item");
        std::size_t n_vectors = 0;
        for (const std::int32_t user : view(users)) n_vectors += view(vector_offsets)[user + 1] - view(vector_offsets)[user];
        require_size("found", found.shape(0), n_vectors, "a row per vector of the users");
        tastespace::UserLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_found(view(user_vectors), view(vector_offsets),
                                       static_cast<std::int64_t>(user_vectors.shape(1)),
                                       {view(item_vectors), {by_distance, view(item_bias)}, {}}, n_items, view(users),
                                       view(found), static_cast<std::int64_t>(found.shape(1)),
                                       {view(excluded_offsets), view(excluded_items)}, k, threads);
        }
        return std::make_tuple(give_matrix<std::int32_t>(std::move(out.top), users.size(), k),
                               give_matrix<float>(std::move(out.scores), users.size(), k),
                               give_matrix<std::int32_t>(std::move(out.interests), users.size(), k), out.nan_user);
      },
      "user_vectors"_a, "vector_offsets"_a, "item_vectors"_a, "by_distance"_a, "item_bias"_a, "users"_a, "found"_a,
      "excluded_offsets"_a, "excluded_items"_a, "k"_a, "threads"_a);

  nb::class_<OneUserLists>(m, "OneUserLists")
      .def(
          "__init__",
          [](OneUserLists* self, Matrix<float> user_vectors, Array<float> vector_terms,
             Array<std::int64_t> vector_offsets, nb::object items, float scale, Matrix<float> item_vectors,
             bool by_distance, Array<float> item_bias, Array<std::int64_t> excluded_offsets,
             Array<std::int32_t> excluded_items, std::int64_t k, std::optional<Array<std::uint8_t>> allowed,
             std::optional<OneUserLists::AnyArray> user_ids, std::optional<OneUserLists::AnyArray> item_ids,
             std::optional<Array<std::int64_t>> text_offsets, std::optional<Array<std::uint8_t>> text,
             bool with_interests) {
            const auto& packed = nb::cast<const tastespace::PackedItems&>(items);
            const auto n_items = static_cast<std::size_t>(packed.n_items()), n_users = excluded_offsets.size() - 1;
            const auto dim = static_cast<std::size_t>(packed.dim());
            require_least("k", k, 0);
            require_size("user_vectors", user_vectors.shape(1), dim, "coordinates of a vector, as of items");
            require_size("vector_terms", vector_terms.size(), user_vectors.shape(0), "one per user vector");
            require_size("vector_offsets", vector_offsets.size(), excluded_offsets.size(), "as of excluded items");
            require_size("item_vectors", item_vectors.shape(0), n_items, "rows, as items");
            require_size("item_vectors", item_vectors.shape(1), dim, "coordinates of a vector, as of users");
            if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), n_items, "one per item");
            if (allowed) require_size("allowed", allowed->size(), n_items, "one per item");
            if (user_ids) require_size("user_ids", user_ids->size(), n_users, "one per user");
            if (item_ids) require_size("item_ids", item_ids->size(), n_items, "one per item");
            if (item_ids.has_value() == (text_offsets && text))
              throw std::invalid_argument("expected item_ids, or text_offsets and text.");
            tastespace::ListSource source{&packed,
                                          {view(user_vectors), view(vector_terms), view(vector_offsets)},
                                          scale,
                                          {view(item_vectors), {by_distance, view(item_bias)}, {}},
                                          {view(excluded_offsets), view(excluded_items)},
                                          k,
                                          {},
                                          {},
                                          {},
                                          by_distance,
                                          with_interests};
            if (allowed) source.allowed = view(*allowed);
            if (user_ids) source.user_ids = OneUserLists::numbers(*user_ids);
            if (item_ids) {
              source.item_ids = OneUserLists::numbers(*item_ids);
            } else {
              require_size("text_offsets", text_offsets->size(), n_items + 1, "one per item and one more");
              require_offsets("text_offsets", view(*text_offsets), text->size());
              source.item_ids.offsets = view(*text_offsets);
              source.item_ids.text = {reinterpret_cast<const char*>(text->data()), text->size()};
            }
            new (self) OneUserLists{user_vectors, vector_terms, vector_offsets, items, item_vectors, item_bias,
                                    excluded_offsets, excluded_items, allowed, user_ids, item_ids, text_offsets, text,
                                    source};
          },
          "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a, "item_vectors"_a,
          "by_distance"_a, "item_bias"_a, "excluded_offsets"_a, "excluded_items"_a, "k"_a, "allowed"_a.none(),
          "user_ids"_a.none(), "item_ids"_a.none(), "text_offsets"_a.none(), "text"_a.none(), "with_interests"_a)
      .def("columns", &OneUserLists::columns, "user"_a, "user_text"_a.none() = nb::none());

  m.def(
      "rank_with_scores",
      [](Matrix<float> scores, Array<std::int32_t> users, Array<std::int64_t> excluded_offsets,
         Array<std::int32_t> excluded_items, Array<std::int64_t> test_offsets,
         Array<std::int32_t> test_items, std::int64_t k, int threads) {
        const auto n_items = static_cast<std::int64_t>(scores.shape(1));
        require_size("scores", scores.shape(0), users.size(), "a row per user");
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      n_items);
        require_lists("test_offsets", "test_items", view(test_offsets), view(test_items), view(users), n_items);
        require_least("k", k, 0);
        require_least("threads", threads, 1);
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
      "mix_with_vectors",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Array<std::int32_t> users,
         Array<double> weights, Array<std::int64_t> excluded_offsets, Array<std::int32_t> excluded_items,
         double diversity, std::int64_t depth, std::int64_t k, int threads) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_mix(weights, vector_offsets, users, diversity, depth, k);
        tastespace::MixedLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::mix_with_vectors(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(users),
              view(weights), {view(excluded_offsets), view(excluded_items)}, {diversity, depth, k}, threads);
        }
        return give_mixed(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
      "users"_a, "weights"_a, "excluded_offsets"_a, "excluded_items"_a, "diversity"_a, "depth"_a, "k"_a,
      "threads"_a);

  m.def(
      "mix_with_scores",
      [](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
         const tastespace::PackedItems& items, float scale, Matrix<float> scores,
         Array<std::int32_t> users, Array<double> weights, Array<std::int64_t> excluded_offsets,
         Array<std::int32_t> excluded_items, double diversity, std::int64_t depth, std::int64_t k, int threads) {
        require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
        require_size("scores", scores.shape(0), users.size(), "a row per user");
        require_size("scores", scores.shape(1), static_cast<std::size_t>(items.n_items()), "a column per item");
        require_lists("excluded_offsets", "excluded_items", view(excluded_offsets), view(excluded_items), view(users),
                      items.n_items());
        require_mix(weights, vector_offsets, users, diversity, depth, k);
        tastespace::MixedLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::mix_with_scores(
              items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(scores),
              view(users), view(weights), {view(excluded_offsets), view(excluded_items)}, {diversity, depth, k},
              threads);
        }
        return give_mixed(std::move(out), users.size(), k);
      },
      "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
      "scores"_a, "users"_a, "weights"_a, "excluded_offsets"_a, "excluded_items"_a, "diversity"_a, "depth"_a,
      "k"_a, "threads"_a);

  m.def(
      "pair_scores",
      [](Matrix<float> user_vectors, Array<std::int64_t> offsets, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, Array<std::int32_t> users, Array<std::int32_t> items, int threads) {
        require_size("items", items.size(), users.size(), "one per user");
        require_size("user_vectors", user_vectors.shape(1), item_vectors.shape(1), "coordinates of a vector, as of items");
        require_rows("offsets", view(offsets), user_vectors.shape(0), view(users));
        require_indices("items", view(items), static_cast<std::int64_t>(item_vectors.shape(0)));
        if (item_bias.size() > 0) require_size("item_bias", item_bias.size(), item_vectors.shape(0), "one per item");
        require_least("threads", threads, 1);
        tastespace::PairScores out;
        {
          nb::gil_scoped_release free;
          out = tastespace::pair_scores(view(user_vectors), view(offsets), view(item_vectors),
                                        static_cast<std::int64_t>(item_vectors.shape(1)),
                                        {by_distance, view(item_bias)}, view(users), view(items), threads);
        }
        return std::make_tuple(give(std::move(out.score)), give(std::move(out.interest)));
      },
      "user_vectors"_a, "offsets"_a, "item_vectors"_a, "by_distance"_a, "item_bias"_a, "users"_a, "items"_a,
      "threads"_a);

  m.def(
      "past_reasons",
      [](Matrix<float> vectors, bool by_distance, Array<std::int64_t> offsets, Array<std::int32_t> past,
         Array<std::int32_t> users, Array<std::int32_t> listed, std::int64_t k) {
        const auto n_items = static_cast<std::int64_t>(vectors.shape(0));
        require_size("listed", listed.size(), users.size(), "one per user");
        require_least("k", k, 1);
        require_rows("offsets", view(offsets), past.size(), view(users));
        require_indices("listed", view(listed), n_items);
        std::int32_t last = -1;  // entries of one list follow each other: its user's past is checked once
        for (const std::int32_t user : view(users)) {
          if (user != last)
            require_indices(
                "past", view(past).subspan(offsets.data()[user], offsets.data()[user + 1] - offsets.data()[user]), n_items);
          last = user;
        }
        tastespace::PastReasons out;
        {
          nb::gil_scoped_release free;
          out = tastespace::past_reasons(view(vectors), static_cast<std::int64_t>(vectors.shape(1)), by_distance,
                                         view(offsets), view(past), view(users), view(listed), k);
        }
        return std::make_tuple(give_matrix<std::int32_t>(std::move(out.items), listed.size(), k),
                               give_matrix<float>(std::move(out.closeness), listed.size(), k));
      },
      "vectors"_a, "by_distance"_a, "offsets"_a, "past"_a, "users"_a, "listed"_a, "k"_a);

  m.def(
      "list_texts",
      [](nb::bytes item_texts, Array<std::int64_t> text_offsets, Array<std::int64_t> text_cuts, Array<std::int64_t> ends,
         Array<std::int32_t> rows, Array<std::int32_t> ranks, Array<float> scores,
         std::optional<Array<std::int32_t>> interests, std::optional<Array<float>> distances,
         std::optional<Matrix<std::int32_t>> reasons, std::optional<Matrix<double>> weights) {
        const std::size_t n = rows.size();
        require_size("ranks", ranks.size(), n, "one per entry");
        require_size("scores", scores.size(), n, "one per entry");
        if (interests) require_size("interests", interests->size(), n, "one per entry");
        if (distances) require_size("distances", distances->size(), n, "one per entry");
        require_offsets("ends", view(ends), n);
        require_size("text_offsets", text_offsets.size(), text_cuts.size() + 1, "one per item and one more");
        const auto n_items = static_cast<std::int64_t>(text_cuts.size());
        require_indices("rows", view(rows), n_items);
        require_rows("text_offsets", view(text_offsets), item_texts.size(), view(rows));  // not of all items each time
        const auto require_cut = [&](std::int32_t item) {
          if (text_cuts.data()[item] < text_offsets.data()[item] || text_cuts.data()[item] > text_offsets.data()[item + 1])
            throw nb::value_error("text_cuts: expected a place within the text of each item.");
        };
        tastespace::ListEntries entries{view(rows), view(ranks), view(scores), {}, {}, {}, {}, 0};
        if (interests) entries.interests = view(*interests);
        if (distances) entries.distances = view(*distances);
        if (reasons.has_value() != weights.has_value())
          throw nb::value_error("reasons and weights: expected both or neither.");
        if (reasons) {
          require_size("reasons", reasons->shape(0), n, "one row per entry");
          require_size("weights", weights->size(), reasons->size(), "one per reason");
          for (const std::int32_t item : view(*reasons)) {
            if (item >= n_items) require_indices("reasons", {&item, 1}, n_items);
            if (item < 0) continue;
            require_rows("text_offsets", view(text_offsets), item_texts.size(), {&item, 1});
            require_cut(item);
          }
          entries.reasons = view(*reasons);
          entries.weights = view(*weights);
          entries.n_reasons = static_cast<std::int64_t>(reasons->shape(1));
        }
        const tastespace::ItemTexts items{{item_texts.c_str(), item_texts.size()}, view(text_offsets), view(text_cuts)};
        const tastespace::ListTexts found = tastespace::list_texts(items, entries, view(ends));
        nb::list out;
        std::int64_t start = 0;
        for (std::size_t list = 0; list < found.ends.size(); ++list) {
          if (found.is_finite[list])
            out.append(nb::bytes(found.text.data() + start, static_cast<std::size_t>(found.ends[list] - start)));
          else
            out.append(nb::none());
          start = found.ends[list];
        }
        return out;
      },
      "item_texts"_a, "text_offsets"_a, "text_cuts"_a, "ends"_a, "rows"_a, "ranks"_a, "scores"_a,
      "interests"_a.none(), "distances"_a.none(), "reasons"_a.none(), "weights"_a.none());

  m.def(
      "list_pair_distances",
      [](Matrix<std::int32_t> top, Matrix<float> vectors, Array<std::int64_t> cuts, int threads) {
        require_least("threads", threads, 1);
        for (const std::int32_t item : view(top))  // below 0: no item
          if (item >= static_cast<std::int64_t>(vectors.shape(0))) require_indices("top", {&item, 1}, vectors.shape(0));
        std::vector<double> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_pair_distances(view(top), static_cast<std::int64_t>(top.shape(1)), view(vectors),
                                                static_cast<std::int64_t>(vectors.shape(1)), view(cuts), threads);
        }
        return give_matrix<double>(std::move(out), top.shape(0), cuts.size());
      },
      "top"_a, "vectors"_a, "cuts"_a, "threads"_a);

  m.def(
      "list_order",
      [](Array<std::int64_t> offsets, Array<float> scores, Array<std::int32_t> rows, int threads) {
        require_offsets("offsets", view(offsets), scores.size());
        require_size("rows", rows.size(), scores.size(), "one per score");
        require_numbers("scores", view(scores), true);
        require_least("threads", threads, 1);
        std::vector<std::int64_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::list_order(view(offsets), view(scores), view(rows), threads);
        }
        return give(std::move(out));
      },
      "offsets"_a, "scores"_a, "rows"_a, "threads"_a);

  m.def(
      "apply_list_rules",
      [](Array<std::int64_t> offsets, Array<std::int32_t> rows, Array<std::int32_t> lengths,
         Array<std::int64_t> group_offsets, Array<std::int32_t> groups, Array<std::int32_t> most,
         Array<std::uint8_t> allowed, Array<std::int64_t> pin_offsets, Array<std::int32_t> pins, Array<std::int32_t> places,
         Array<std::uint8_t> is_new, double share, int threads) {
        require_size("lengths", lengths.size() + 1, offsets.size(), "one per list and one more");
        require_size("pin_offsets", pin_offsets.size(), offsets.size(), "one per list and one more");
        require_offsets("offsets", view(offsets), rows.size());
        require_offsets("pin_offsets", view(pin_offsets), pins.size());
        require_size("places", places.size(), pins.size(), "one per pinned item");
        for (const std::int32_t length : view(lengths)) require_least("lengths", length, 0);
        const auto n_items = static_cast<std::int64_t>(allowed.size());
        require_indices("rows", view(rows), n_items);
        require_indices("pins", view(pins), n_items);
        if (is_new.size() > 0) require_size("is_new", is_new.size(), allowed.size(), "one per item");
        if (group_offsets.size() > 0) {
          require_size("group_offsets", group_offsets.size(), allowed.size() + 1, "one per item and one more");
          require_offsets("group_offsets", view(group_offsets), groups.size());
          require_indices("groups", view(groups), static_cast<std::int64_t>(most.size()));
        }
        require_numbers("share", std::span<const double>(&share, 1));
        require_least("threads", threads, 1);
        tastespace::RuledLists out;
        {
          nb::gil_scoped_release free;
          out = tastespace::apply_list_rules({view(offsets), view(rows)}, view(lengths),
                                             {view(group_offsets), view(groups), view(most), view(allowed)},
                                             {{view(pin_offsets), view(pins)}, view(places)}, {view(is_new), share},
                                             threads);
        }
        return std::make_tuple(give(std::move(out.offsets)), give(std::move(out.rows)), give(std::move(out.entries)),
                               give(std::move(out.incomplete)));
      },
      nb::kw_only(), "offsets"_a, "rows"_a, "lengths"_a, "group_offsets"_a, "groups"_a, "most"_a, "allowed"_a,
      "pin_offsets"_a, "pins"_a, "places"_a, "is_new"_a, "share"_a, "threads"_a);

  m.def(
      "pool_relevance",
      [](Array<std::int64_t> offsets, Array<double> scores, int threads) {
        require_offsets("offsets", view(offsets), scores.size());
        require_least("threads", threads, 1);
        std::vector<double> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::pool_relevance(view(offsets), view(scores), threads);
        }
        return give(std::move(out));
      },
      "offsets"_a, "scores"_a, "threads"_a);

  m.def(
      "calibrated_lists",
      [](Array<std::int64_t> offsets, Array<double> relevance, Array<std::int32_t> sets,
         Array<std::int64_t> set_offsets, Array<std::int32_t> set_terms, Array<std::int32_t> term_categories,
         Array<double> term_shares, Matrix<double> target, double weight, double smoothing, std::int64_t k,
         int threads) {
        require_size("offsets", offsets.size(), target.shape(0) + 1, "one per row of target and one more");
        require_offsets("offsets", view(offsets), relevance.size());
        require_size("sets", sets.size(), relevance.size(), "one per entry");
        require_offsets("set_offsets", view(set_offsets), set_terms.size());
        require_indices("sets", view(sets), static_cast<std::int64_t>(set_offsets.size()) - 1);
        require_size("term_shares", term_shares.size(), term_categories.size(), "one per term");
        require_indices("set_terms", view(set_terms), static_cast<std::int64_t>(term_categories.size()));
        require_indices("term_categories", view(term_categories), static_cast<std::int64_t>(target.shape(1)));
        require_numbers("term_shares", view(term_shares));
        require_numbers("target", view(target));
        for (const double value : {weight, smoothing}) require_numbers("settings", std::span<const double>(&value, 1));
        require_least("k", k, 0);
        require_least("threads", threads, 1);
        std::vector<std::int64_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::calibrated_lists(
              {view(offsets), view(relevance), view(sets)},
              {view(set_offsets), view(set_terms), view(term_categories), view(term_shares)}, view(target),
              static_cast<std::int64_t>(target.shape(1)), {weight, smoothing, k}, threads);
        }
        return give(std::move(out));
      },
      nb::kw_only(), "offsets"_a, "relevance"_a, "sets"_a, "set_offsets"_a, "set_terms"_a, "term_categories"_a,
      "term_shares"_a, "target"_a, "weight"_a, "smoothing"_a, "k"_a, "threads"_a);

  m.def(
      "als_half_step",
      [](Array<std::int64_t> offsets, Array<std::int32_t> columns, Array<float> extra, Matrix<float> fixed,
         Matrix<float> gram, Array<float> regularization, int n_steps,
         nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> vectors, int threads) {
        require_size("extra", extra.size(), columns.size(), "one per column");
        require_size("offsets", offsets.size(), vectors.shape(0) + 1, "one per row of vectors and one more");
        require_offsets("offsets", view(offsets), columns.size());
        require_indices("columns", view(columns), static_cast<std::int64_t>(fixed.shape(0)));
        require_size("regularization", regularization.size(), vectors.shape(0), "one per row of vectors");
        require_size("fixed", fixed.shape(1), vectors.shape(1), "coordinates of a vector");
        require_size("gram", gram.shape(0), vectors.shape(1), "a row per coordinate");
        require_size("gram", gram.shape(1), vectors.shape(1), "a column per coordinate");
        require_least("threads", threads, 1);
        run_interruptibly([&](tastespace::Interrupt& interrupt) {
          tastespace::als_half_step({view(offsets), view(columns), view(extra)}, view(fixed), view(gram),
                                    view(regularization), static_cast<std::int64_t>(vectors.shape(1)), n_steps,
                                    {vectors.data(), vectors.size()}, threads, interrupt);
        });
      },
      nb::kw_only(), "offsets"_a, "columns"_a, "extra"_a, "fixed"_a, "gram"_a, "regularization"_a, "n_steps"_a,
      "vectors"_a.noconvert(), "threads"_a);

  m.def(
      "add_standardized",
      [](nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> total, Matrix<float> scores, float weight,
         int threads) {
        require_size("total", total.shape(0), scores.shape(0), "rows, as in scores");
        require_size("total", total.shape(1), scores.shape(1), "columns, as in scores");
        require_least("threads", threads, 1);
        nb::gil_scoped_release free;
        return tastespace::add_standardized({total.data(), total.size()}, view(scores),
                                            static_cast<std::int64_t>(scores.shape(1)), weight, threads);
      },
      "total"_a.noconvert(), "scores"_a, "weight"_a, "threads"_a);

  const auto score_matrix = [&m](const char* name, auto kernel) {
    m.def(
        name,
        [kernel](Matrix<float> user_vectors, Array<float> vector_terms, Array<std::int64_t> vector_offsets,
                 const tastespace::PackedItems& items, float scale, Array<std::int32_t> users, int threads) {
          require_vector_space(user_vectors, vector_terms, vector_offsets, items, users, threads);
          using Values = decltype(kernel(std::declval<const tastespace::PackedItems&>(),
                                         std::declval<const tastespace::UserVectors&>(), 0.0f, view(users), 0));
          Values out;
          {
            nb::gil_scoped_release free;
            out = kernel(items, {view(user_vectors), view(vector_terms), view(vector_offsets)}, scale, view(users),
                         threads);
          }
          return give_matrix<typename Values::value_type>(std::move(out), users.size(),
                                                          static_cast<std::size_t>(items.n_items()));
        },
        "user_vectors"_a, "vector_terms"_a, "vector_offsets"_a, "items"_a, "scale"_a,
        "users"_a, "threads"_a);
  };
  score_matrix("score_users", &tastespace::score_users);
  score_matrix("nearest_interests", &tastespace::nearest_interests);

  m.def(
      "fit_item_regression",
      [](Array<std::int64_t> user_offsets, Array<std::int32_t> items, Array<float> user_values,
         Array<std::int64_t> item_offsets, Array<std::int32_t> users, Array<float> item_values,
         std::int64_t n_neighbors, std::int64_t row_length, double regularization, double self_weight, int threads) {
        require_size("user_values", user_values.size(), items.size(), "one per item of a user");
        require_size("item_values", item_values.size(), users.size(), "one per user of an item");
        require_size("users", users.size(), items.size(), "as many as items");
        require_offsets("user_offsets", view(user_offsets), items.size());
        require_offsets("item_offsets", view(item_offsets), users.size());
        require_indices("items", view(items), static_cast<std::int64_t>(item_offsets.size()) - 1);
        require_indices("users", view(users), static_cast<std::int64_t>(user_offsets.size()) - 1);
        require_numbers("user_values", view(user_values));
        require_numbers("item_values", view(item_values));
        require_least("n_neighbors", n_neighbors, 0);
        require_least("row_length", row_length, 0);
        require_least("threads", threads, 1);
        tastespace::ItemRegression out;
        {
          nb::gil_scoped_release free;
          out = tastespace::fit_item_regression({view(user_offsets), view(items), view(user_values),
                                                 view(item_offsets), view(users), view(item_values)},
                                                {n_neighbors, row_length, regularization, self_weight}, threads);
        }
        return std::make_tuple(give(std::move(out.offsets)), give(std::move(out.sources)),
                               give(std::move(out.coefficients)));
      },
      nb::kw_only(), "user_offsets"_a, "items"_a, "user_values"_a, "item_offsets"_a, "users"_a, "item_values"_a,
      "n_neighbors"_a, "row_length"_a, "regularization"_a, "self_weight"_a, "threads"_a);

  m.def(
      "draw_negatives",
      [](Array<std::int64_t> offsets, Array<std::int32_t> positives, std::int32_t n_items,
         Array<float> alias_keep, Array<std::int32_t> alias_other, Array<std::int32_t> users, std::int64_t n,
         std::uint64_t seed, std::uint64_t epoch, std::int64_t first, int threads) {
        require_lists("offsets", "positives", view(offsets), view(positives), view(users), n_items);
        if (alias_keep.size() > 0) require_size("alias_keep", alias_keep.size(), n_items, "one per item");
        require_size("alias_other", alias_other.size(), alias_keep.size(), "as alias_keep");
        require_indices("alias_other", view(alias_other), n_items);
        require_least("n_items", n_items, 0);
        require_least("n", n, 0);
        require_least("threads", threads, 1);
        std::vector<std::int32_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::draw_negatives(view(offsets), view(positives), n_items,
                                           {view(alias_keep), view(alias_other)}, view(users), n, seed, epoch,
                                           first, threads);
        }
        return give_matrix<std::int32_t>(std::move(out), users.size(), n);
      },
      "offsets"_a, "positives"_a, "n_items"_a, "alias_keep"_a, "alias_other"_a, "users"_a, "n"_a, "seed"_a,
      "epoch"_a, "first"_a, "threads"_a);

  m.def(
      "touched_items",
      [](Array<std::int64_t> offsets, Array<std::int32_t> positives, std::int32_t n_items,
         Array<float> alias_keep, Array<std::int32_t> alias_other, std::int64_t n_negatives, std::uint64_t seed,
         std::uint64_t epoch, std::int64_t first, std::int64_t last, int threads) {
        require_least("n_items", n_items, 0);
        require_offsets("offsets", view(offsets), positives.size());
        require_indices("positives", view(positives), n_items);
        if (alias_keep.size() > 0) require_size("alias_keep", alias_keep.size(), n_items, "one per item");
        require_size("alias_other", alias_other.size(), alias_keep.size(), "as alias_keep");
        require_indices("alias_other", view(alias_other), n_items);
        require_least("n_negatives", n_negatives, 0);
        require_range(first, last, static_cast<std::int64_t>(positives.size()));
        require_least("threads", threads, 1);
        std::vector<std::uint8_t> out;
        {
          nb::gil_scoped_release free;
          out = tastespace::touched_items(view(offsets), view(positives), n_items,
                                          {view(alias_keep), view(alias_other)}, n_negatives, seed, epoch, first,
                                          last, threads);
        }
        return give<std::uint8_t>(std::move(out));
      },
      "offsets"_a, "positives"_a, "n_items"_a, "alias_keep"_a, "alias_other"_a, "n_negatives"_a, "seed"_a, "epoch"_a,
      "first"_a, "last"_a, "threads"_a);
}
