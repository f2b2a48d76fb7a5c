// The only file that knows both Python and the kernels: arrays in, arrays out, the GIL released in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bpr.hpp"
#include "cpu.hpp"
#include "csr.hpp"
#include "evaluate.hpp"
#include "factorize.hpp"
#include "negatives.hpp"
#include "newcomers.hpp"
#include "pairs.hpp"
#include "train.hpp"

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

template <class T>
using Writable = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<T> edit(const Writable<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
T get(const nb::dict& d, const char* name) {
  // No conversion: a copy would swallow what is learned.
  T found;
  if (!d.contains(name) || !nb::try_cast<T>(d[name], found, false))
    throw nb::type_error((std::string("array '") + name + "' is missing or has another type").c_str());
  return found;
}

// The arrays of a training run, as Python holds them; see tastespace/training/metric.py.
struct TrainArrays {
  Array<std::int64_t> offsets;
  Array<std::int32_t> positives;
  Array<float> alias_keep;
  Array<std::int32_t> alias_other;
  Array<std::int64_t> vector_offsets;
  Array<float> loss_weight, dcrs_share;
  Array<std::int32_t> n_hardest;
  Writable<float> users, items, user_first, user_second, item_first, item_second, gamma;
  Writable<std::int32_t> user_steps, item_steps;

  explicit TrainArrays(const nb::dict& d)
      : offsets(get<Array<std::int64_t>>(d, "offsets")), positives(get<Array<std::int32_t>>(d, "positives")),
        alias_keep(get<Array<float>>(d, "alias_keep")), alias_other(get<Array<std::int32_t>>(d, "alias_other")),
        vector_offsets(get<Array<std::int64_t>>(d, "vector_offsets")),
        loss_weight(get<Array<float>>(d, "loss_weight")), dcrs_share(get<Array<float>>(d, "dcrs_share")),
        n_hardest(get<Array<std::int32_t>>(d, "n_hardest")), users(get<Writable<float>>(d, "users")),
        items(get<Writable<float>>(d, "items")), user_first(get<Writable<float>>(d, "user_first")),
        user_second(get<Writable<float>>(d, "user_second")), item_first(get<Writable<float>>(d, "item_first")),
        item_second(get<Writable<float>>(d, "item_second")), gamma(get<Writable<float>>(d, "gamma")),
        user_steps(get<Writable<std::int32_t>>(d, "user_steps")),
        item_steps(get<Writable<std::int32_t>>(d, "item_steps")) {}

  tastespace::TrainData data() const {
    return {view(offsets), view(positives), static_cast<std::int32_t>(items.shape(0)),
            {view(alias_keep), view(alias_other)}, view(vector_offsets), view(loss_weight), view(dcrs_share),
            view(n_hardest)};
  }
  tastespace::TrainState state() const {
    return {edit(users), edit(items), static_cast<std::int64_t>(items.shape(1)),
            {edit(user_first), edit(user_second), edit(user_steps)},
            {edit(item_first), edit(item_second), edit(item_steps)}, edit(gamma)};
  }
};

tastespace::OptimizerSettings optimizer_settings(const nb::dict& d) {
  const auto real = [&](const char* name) { return nb::cast<float>(d[name]); };
  return {static_cast<tastespace::Method>(nb::cast<int>(d["method"])), real("learning_rate"), real("beta1"),
          real("beta2"), real("epsilon")};
}

tastespace::TrainSettings train_settings(const nb::dict& d) {
  const auto whole = [&](const char* name) { return nb::cast<std::int64_t>(d[name]); };
  const auto real = [&](const char* name) { return nb::cast<float>(d[name]); };
  tastespace::TrainSettings s{};
  s.sampler = static_cast<tastespace::Sampler>(whole("sampler"));
  s.n_candidates = whole("n_candidates");
  s.n_used = whole("n_used");
  s.margin = real("margin");
  s.distance_scale = real("distance_scale");
  s.gamma_rule = static_cast<tastespace::GammaRule>(whole("gamma_rule"));
  s.gamma_rate = real("gamma_rate");
  s.dcrs = static_cast<tastespace::DcrsForm>(whole("dcrs"));
  s.dcrs_weight = real("dcrs_weight");
  s.dcrs_low = real("dcrs_low");
  s.dcrs_high = real("dcrs_high");
  s.user_region = static_cast<tastespace::Region>(whole("user_region"));
  s.item_region = static_cast<tastespace::Region>(whole("item_region"));
  s.radius = real("radius");
  s.optimizer = optimizer_settings(d);
  s.block = whole("block_size");
  return s;
}

// The arrays of a BPR run; see tastespace/training/pairwise.py.
struct BprArrays {
  Array<std::int64_t> offsets;
  Array<std::int32_t> positives;
  Writable<float> users, items, bias, user_first, user_second, item_first, item_second, bias_first, bias_second;
  Writable<std::int32_t> user_steps, item_steps, bias_steps;

  explicit BprArrays(const nb::dict& d)
      : offsets(get<Array<std::int64_t>>(d, "offsets")), positives(get<Array<std::int32_t>>(d, "positives")),
        users(get<Writable<float>>(d, "users")), items(get<Writable<float>>(d, "items")),
        bias(get<Writable<float>>(d, "bias")), user_first(get<Writable<float>>(d, "user_first")),
        user_second(get<Writable<float>>(d, "user_second")), item_first(get<Writable<float>>(d, "item_first")),
        item_second(get<Writable<float>>(d, "item_second")), bias_first(get<Writable<float>>(d, "bias_first")),
        bias_second(get<Writable<float>>(d, "bias_second")), user_steps(get<Writable<std::int32_t>>(d, "user_steps")),
        item_steps(get<Writable<std::int32_t>>(d, "item_steps")),
        bias_steps(get<Writable<std::int32_t>>(d, "bias_steps")) {}

  tastespace::BprData data() const {
    return {view(offsets), view(positives), static_cast<std::int32_t>(items.shape(0))};
  }
  tastespace::BprState state() const {
    return {edit(users), edit(items), edit(bias), static_cast<std::int64_t>(items.shape(1)),
            {edit(user_first), edit(user_second), edit(user_steps)},
            {edit(item_first), edit(item_second), edit(item_steps)},
            {edit(bias_first), edit(bias_second), edit(bias_steps)}};
  }
};

tastespace::BprSettings bpr_settings(const nb::dict& d) {
  return {nb::cast<float>(d["regularization"]), nb::cast<float>(d["bias_regularization"]), optimizer_settings(d),
          nb::cast<std::int64_t>(d["block_size"])};
}

}  // namespace

NB_MODULE(TASTESPACE_MODULE, m) {
  m.def("best_twin", &tastespace::best_twin);
  m.attr("SOURCES") = TASTESPACE_SOURCES;

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
      "pair_scores",
      [](Matrix<float> user_vectors, Array<std::int64_t> offsets, Matrix<float> item_vectors, bool by_distance,
         Array<float> item_bias, Array<std::int32_t> users, Array<std::int32_t> items, int threads) {
        same_length(users.size(), items.size());
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

  m.def(
      "train_range",
      [](nb::dict arrays, nb::dict settings, std::uint64_t seed, std::uint64_t epoch, std::int64_t first,
         std::int64_t last, int threads) {
        const TrainArrays held(arrays);
        const tastespace::TrainSettings how = train_settings(settings);
        tastespace::TrainTotals out;
        {
          nb::gil_scoped_release free;
          const tastespace::TrainData data = held.data();
          tastespace::TrainState state = held.state();
          out = tastespace::train_range(data, state, how, seed, epoch, first, last, threads);
        }
        return std::make_tuple(out.loss, out.dcrs, out.visited, out.skipped, out.pulls);
      },
      "arrays"_a, "settings"_a, "seed"_a, "epoch"_a, "first"_a, "last"_a, "threads"_a);

  m.def(
      "learn_newcomers",
      [](nb::dict arrays, nb::dict settings, std::uint64_t seed, std::int64_t epochs, std::int64_t average,
         Writable<float> mean_users, int threads) {
        const TrainArrays held(arrays);
        const tastespace::TrainSettings how = train_settings(settings);
        same_length(mean_users.size(), held.users.size());
        nb::gil_scoped_release free;
        const tastespace::TrainData data = held.data();
        tastespace::TrainState state = held.state();
        tastespace::learn_newcomers(data, state, how, seed, epochs, average, edit(mean_users), threads);
      },
      "arrays"_a, "settings"_a, "seed"_a, "epochs"_a, "average"_a, "mean_users"_a, "threads"_a);

  m.def(
      "probe",
      [](nb::dict arrays, nb::dict settings, std::uint64_t seed, std::uint64_t epoch, std::int64_t positive,
         Writable<float> user_gradient, Writable<float> item_gradient) {
        const TrainArrays held(arrays);
        tastespace::Visit visit =
            tastespace::probe(held.data(), held.state(), train_settings(settings), seed, epoch, positive,
                              edit(user_gradient), edit(item_gradient));
        return std::make_tuple(visit.loss, visit.dcrs, visit.gamma_slope, give(std::move(visit.candidates)));
      },
      "arrays"_a, "settings"_a, "seed"_a, "epoch"_a, "positive"_a, "user_gradient"_a, "item_gradient"_a);

  m.def(
      "bpr_range",
      [](nb::dict arrays, nb::dict settings, std::uint64_t seed, std::uint64_t epoch, std::int64_t first,
         std::int64_t last, int threads) {
        const BprArrays held(arrays);
        const tastespace::BprSettings how = bpr_settings(settings);
        tastespace::BprTotals out;
        {
          nb::gil_scoped_release free;
          const tastespace::BprData data = held.data();
          tastespace::BprState state = held.state();
          out = tastespace::bpr_range(data, state, how, seed, epoch, first, last, threads);
        }
        return std::make_tuple(out.loss, out.right, out.visited);
      },
      "arrays"_a, "settings"_a, "seed"_a, "epoch"_a, "first"_a, "last"_a, "threads"_a);

  m.def(
      "bpr_newcomers",
      [](nb::dict arrays, nb::dict settings, std::uint64_t seed, std::int64_t epochs, std::int64_t average,
         Writable<float> mean_users, int threads) {
        const BprArrays held(arrays);
        const tastespace::BprSettings how = bpr_settings(settings);
        same_length(mean_users.size(), held.users.size());
        nb::gil_scoped_release free;
        const tastespace::BprData data = held.data();
        tastespace::BprState state = held.state();
        tastespace::bpr_newcomers(data, state, how, seed, epochs, average, edit(mean_users), threads);
      },
      "arrays"_a, "settings"_a, "seed"_a, "epochs"_a, "average"_a, "mean_users"_a, "threads"_a);

  m.def(
      "draw_negatives",
      [](Array<std::int64_t> offsets, Array<std::int32_t> positives, std::int32_t n_items,
         Array<float> alias_keep, Array<std::int32_t> alias_other, Array<std::int32_t> users, std::int64_t n,
         std::uint64_t seed, std::uint64_t epoch, std::int64_t first, int threads) {
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
}
