// Arguments of kernels that learn: settings, data and state.
#include <nanobind/stl/optional.h>

#include "bindings.hpp"
#include "training_arrays.hpp"

namespace tastespace::bindings {
namespace {

template <class C, class T>
auto array_of(Held<T> C::*member) {
  return [member](const C& self) { return (self.*member).object; };
}

}  // namespace

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
             OptimizerSettings optimizer, std::int64_t block_size, float anchor, float temperature,
             bool first_vector_only, bool batches) {
            new (self) DpcmlSettings{sampler,    n_negatives, n_hardest,     margin,     distance_scale, gamma_rule,
                                     gamma_rate, dcrs,        spread_weight, min_spread, max_spread,     user_region,
                                     item_region, radius,     optimizer,     block_size, anchor,         temperature,
                                     first_vector_only, batches};
          },
          nb::kw_only(), "sampler"_a.noconvert(), "n_negatives"_a, "n_hardest"_a, "margin"_a, "distance_scale"_a,
          "gamma_rule"_a.noconvert(), "gamma_rate"_a, "dcrs"_a.noconvert(), "spread_weight"_a, "min_spread"_a,
          "max_spread"_a, "user_region"_a.noconvert(), "item_region"_a.noconvert(), "radius"_a, "optimizer"_a,
          "block_size"_a, "anchor"_a = 0.0f, "temperature"_a = 0.0f,
          "first_vector_only"_a = false, "batches"_a = false)
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
      .def_rw("anchor", &DpcmlSettings::anchor)
      .def_rw("temperature", &DpcmlSettings::temperature)
      .def_rw("first_vector_only", &DpcmlSettings::first_vector_only)
      .def_rw("batches", &DpcmlSettings::batches);

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

}  // namespace tastespace::bindings
