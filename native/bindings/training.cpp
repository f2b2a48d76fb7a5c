// Training of DPCML, BPR and SoftmaxMF, and draws of negatives.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "train/anchors.hpp"
#include "bindings.hpp"
#include "train/dpcml_fold_in.hpp"
#include "train/negatives.hpp"
#include "train/softmax_mf.hpp"
#include "training_arrays.hpp"

namespace tastespace::bindings {

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

  m.def(
      "train_softmax_mf",
      [](Array<std::int64_t> offsets, Array<std::int32_t> positives, nb::object user_rows, nb::object user_first,
         nb::object user_second, nb::object item_rows, nb::object item_first, nb::object item_second,
         Array<std::int32_t> users, Matrix<std::int32_t> pools, std::int64_t batch_size, float temperature,
         float learning_rate, std::int64_t first_step, int threads) {
        const auto row = [](const char* name, nb::object& array, std::size_t n_dims) {
          return hold<float>(name, std::move(array), n_dims);
        };
        const Held<float> u = row("user_rows", user_rows, 2), u1 = row("user_first", user_first, 2);
        const Held<float> i = row("item_rows", item_rows, 2), i1 = row("item_first", item_first, 2);
        const Held<float> u2 = row("user_second", user_second, 1), i2 = row("item_second", item_second, 1);
        require_size("offsets", offsets.size(), u.rows() + 1, "one per user and one more");
        require_offsets("offsets", view(offsets), positives.size());
        require_indices("positives", view(positives), i.rows());
        require_size("user_rows", u, u.rows() * i.shape[1], "rows as long as those of items");
        require_size("user_first", u1, static_cast<std::int64_t>(u.size()), "one per coordinate");
        require_size("item_first", i1, static_cast<std::int64_t>(i.size()), "one per coordinate");
        require_size("user_second", u2, u.rows(), "one per row");
        require_size("item_second", i2, i.rows(), "one per row");
        require_least("batch_size", batch_size, 1);
        require_least("first_step", first_step, 0);
        require_least("threads", threads, 1);
        require_least("negatives", static_cast<std::int64_t>(pools.shape(1)), 1);
        require_indices("users", view(users), u.rows());
        require_indices("pools", view(pools), i.rows());
        const auto n_batches = (static_cast<std::int64_t>(users.size()) + batch_size - 1) / batch_size;
        require_size("pools", pools.shape(0), n_batches, "a row per batch");
        tastespace::SoftmaxState state{{u.span(), u1.span(), u2.span()}, {i.span(), i1.span(), i2.span()}, i.shape[1]};
        const auto totals = run_interruptibly([&](tastespace::Interrupt& interrupt) {
          return tastespace::train_softmax_mf({view(offsets), view(positives)}, state,
                                              {temperature, learning_rate, batch_size}, view(users), view(pools),
                                              static_cast<std::int64_t>(pools.shape(1)), first_step, threads,
                                              interrupt);
        });
        return std::make_tuple(totals.loss, totals.n_positives);
      },
      nb::kw_only(), "offsets"_a, "positives"_a, "user_rows"_a, "user_first"_a, "user_second"_a, "item_rows"_a,
      "item_first"_a, "item_second"_a, "users"_a, "pools"_a, "batch_size"_a, "temperature"_a, "learning_rate"_a,
      "first_step"_a, "threads"_a);

  m.def(
      "fold_in_softmax_mf",
      [](Array<std::int64_t> offsets, Array<std::int32_t> positives, nb::object vectors, Matrix<float> item_vectors,
         Array<std::int32_t> pool, float temperature, int n_steps, int threads) {
        const Held<float> users = hold<float>("vectors", std::move(vectors), 2);
        const auto n_items = static_cast<std::int64_t>(item_vectors.shape(0));
        require_size("offsets", offsets.size(), users.rows() + 1, "one per row of vectors and one more");
        require_size("item_vectors", item_vectors.shape(1), users.shape[1], "coordinates of a vector");
        require_offsets("offsets", view(offsets), positives.size());
        require_indices("positives", view(positives), n_items);
        require_indices("pool", view(pool), n_items);
        require_least("pool", static_cast<std::int64_t>(pool.size()), 1);
        require_least("threads", threads, 1);
        run_interruptibly([&](tastespace::Interrupt& interrupt) {
          tastespace::fold_in_softmax_mf({view(offsets), view(positives)}, view(item_vectors), users.shape[1],
                                         view(pool), temperature, n_steps, users.span(), threads, interrupt);
        });
      },
      nb::kw_only(), "offsets"_a, "positives"_a, "vectors"_a, "item_vectors"_a, "pool"_a, "temperature"_a,
      "n_steps"_a, "threads"_a);
}

void bind_negatives(nb::module_& m) {
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

}  // namespace tastespace::bindings
