// Arrays of NumPy that training changes in place: held by objects of Python, views for the kernels.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "train/bpr.hpp"
#include "train/dpcml.hpp"

namespace tastespace::bindings {

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
inline std::string description(nb::handle value) {
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
inline void require_vectors(const DpcmlDataArrays& data, const DpcmlStateArrays& state) {
  const std::int64_t n_users = data.offsets.rows() - 1, dim = state.item_vectors.shape[1];
  require_size("vector_offsets", data.vector_offsets, n_users + 1, "one per user and one more");
  require_offsets("vector_offsets", data.vector_offsets.span(), state.user_vectors.rows());
  require_size("user_vectors", state.user_vectors, data.vector_offsets.data[n_users] * dim,
               "vectors of all users times dim");
}

// What a kernel with anchored vectors needs.
inline void require_anchors(const DpcmlDataArrays& data, const DpcmlStateArrays& state) {
  if (!state.anchors) throw nb::value_error("anchors: expected an AnchorState, because settings.anchor is above 0.");
  const auto n_item_values = static_cast<std::int64_t>(state.item_vectors.size());
  const auto n_user_values = static_cast<std::int64_t>(state.user_vectors.size());
  require_size("assignments", state.anchors->assignments, data.positives.rows(), "one per positive");
  require_size("snapshot", state.anchors->snapshot, n_item_values, "as item_vectors");
  require_size("sums", state.anchors->sums, n_user_values, "as user_vectors");
  require_size("counts", state.anchors->counts, state.user_vectors.rows(), "one per user vector");
}

inline void require_sizes(const DpcmlDataArrays& data, const DpcmlStateArrays& state, const tastespace::DpcmlSettings& how) {
  const std::int64_t n_users = data.offsets.rows() - 1, n_positives = data.positives.rows();
  const std::int64_t n_items = state.item_vectors.rows();
  require_vectors(data, state);
  if (how.anchor > 0.0f) require_anchors(data, state);
  if (how.batches && (how.anchor > 0.0f || how.optimizer.optimizer != tastespace::Optimizer::adam))
    throw nb::value_error("batches: expected Adam and anchor=0.");
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

inline void require_sizes(const BprDataArrays& data, const BprStateArrays& state, const tastespace::BprSettings& how) {
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

}  // namespace tastespace::bindings
