// Unit tests of what the kernels are made of, and of what Python cannot reach: exceptions inside parallel regions, NaN in
// comparisons, interrupts. A plain executable: it ends with 0, or says what does not hold and ends with 1.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "train/block_layout.hpp"
#include "core/crc32.hpp"
#include "core/csr.hpp"
#include "core/interrupt.hpp"
#include "rank/list_order.hpp"
#include "train/negatives.hpp"
#include "core/parallel_errors.hpp"
#include "core/random.hpp"
#include "core/row_positions.hpp"
#include "rank/row_ranking.hpp"
#include "core/simd.hpp"
#include "check.hpp"

using namespace tastespace;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void exceptions_leave_a_parallel_region() {
  for (const int threads : {1, 2, 4}) {
    ParallelErrors errors;
    std::atomic<int> n_done = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int i = 0; i < 1000; ++i)
      errors.run([&] {
        if (i == 500) throw std::length_error("part 500");
        ++n_done;
      });
    std::string message;
    try {
      errors.rethrow();
    } catch (const std::length_error& problem) {
      message = problem.what();
    }
    CHECK(message == "part 500");
    CHECK(n_done < 1000);
  }
  ParallelErrors none;
  none.run([] {});
  none.rethrow();
}

void an_interrupt_is_seen_by_all_threads() {
  int n_asked = 0;
  Interrupt interrupt([&] { return ++n_asked >= 2; });
  std::atomic<int> n_stopped = 0;
#pragma omp parallel num_threads(3)
  {
    while (!interrupt.requested()) {
    }
    ++n_stopped;
  }
  CHECK(n_stopped >= 1);
  CHECK(n_asked == 2);
  Interrupt never;
  CHECK(!never.requested());
}

void numbers_of_a_key_do_not_depend_on_anything_else() {
  CounterRng a(1, 2, 3), b(1, 2, 3), c(1, 2, 4);
  const std::uint64_t first = a.next();
  CHECK(first == b.next());
  CHECK(first != c.next());
  for (const std::uint64_t n : {1u, 2u, 7u, 64u, 1000u}) {
    const Permutation order(n, 5, 6);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < n; ++i) seen.insert(order(i));
    CHECK(seen.size() == n);
    CHECK(*seen.rbegin() == n - 1);
  }
}

void an_epoch_goes_through_every_positive_once_in_runs() {
  const std::vector<std::int64_t> offsets{0, 20, 20, 23, 57};  // four users, one without positives
  std::vector<std::int64_t> some;
  for (std::int64_t at = 1; at < 57; at += 2) some.push_back(at);
  std::vector<BlockPositive> before;
  for (const std::vector<std::int64_t>& visited : {std::vector<std::int64_t>{}, some})
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      const EpochOrder order(offsets, {}, 57, 3, epoch, visited);
      const auto n = static_cast<std::int64_t>(visited.empty() ? 57 : visited.size());
      std::vector<BlockPositive> found, whole;
      for (std::int64_t first = 0; first < n; first += 10) order.append(first, std::min(n, first + 10), found);
      order.append(0, n, whole);
      std::set<std::int64_t> seen;
      std::int64_t n_changes = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        CHECK(found[i].positive_index == whole[i].positive_index);
        CHECK(found[i].user == row_of_position(offsets, found[i].positive_index));
        CHECK(visited.empty() || std::binary_search(visited.begin(), visited.end(), found[i].positive_index));
        seen.insert(found[i].positive_index);
        n_changes += i > 0 && found[i].user != found[i - 1].user;
      }
      CHECK(static_cast<std::int64_t>(seen.size()) == n);
      CHECK(n_changes <= n / kRunPositives + 5);  // between runs, and where one user's positives end within a run
      CHECK(before.size() != found.size() || before[0].positive_index != found[0].positive_index ||
            before[1].positive_index != found[1].positive_index);
      before = found;
    }
}

void negatives_are_distinct_and_not_taken() {
  const std::vector<std::int32_t> taken{0, 3, 4, 9};
  NegativeSampler sampler(10, {});
  std::vector<std::int32_t> out;
  for (std::uint64_t i = 0; i < 50; ++i) {
    CounterRng rng(1, 1, i);
    sampler.draw(taken, ItemFilter{}, 6, rng, out);
    CHECK(std::set<std::int32_t>(out.begin(), out.end()).size() == 6);
    for (const std::int32_t item : out) CHECK(!std::binary_search(taken.begin(), taken.end(), item));
  }
  CounterRng rng(1, 1, 99);
  sampler.draw(taken, ItemFilter{}, 9, rng, out);
  CHECK(out.size() == 6);  // all there are
  std::vector<std::uint64_t> words(1, 0);
  ItemFilter::set(taken, 60, words.data());
  NegativeSampler of_many(60, {});
  for (std::uint64_t i = 0; i < 50; ++i) {
    CounterRng same(1, 2, i);
    of_many.draw(taken, ItemFilter{}, 1, same, out);
    CHECK(of_many.draw_one(taken, ItemFilter(words.data(), 4, 60), CounterRng(1, 2, i)) == out[0]);
    CHECK(of_many.draw_one(taken, ItemFilter{}, CounterRng(1, 2, i)) == out[0]);
  }
  const std::vector<std::int32_t> all{0, 1};
  CHECK(NegativeSampler(2, {}).draw_one(all, ItemFilter{}, CounterRng(1, 2, 3)) == -1);
}

void rows_with_nan_are_refused_and_lists_are_in_order() {
  std::vector<float> scores{1, 5, kNaN, 2};
  CHECK(!prepare_row(scores, 4, {}));
  std::vector<float> many(2000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i * 37 % 1000);
  CHECK(prepare_row(many, 2000, std::vector<std::int32_t>{27}));
  TopBuffer buffer;
  for (const std::size_t k : {1u, 10u, 100u, 2000u}) {
    std::vector<std::int32_t> top(k), expected(many.size());
    top_k(many, top, buffer);
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) { return many[a] > many[b]; });
    const std::size_t n = std::min(k, many.size() - 1);
    CHECK(std::equal(top.begin(), top.begin() + n, expected.begin()));
    if (k == 2000) CHECK(top.back() == -1);  // the excluded one
  }
}

void nan_is_last_in_every_order() {
  const std::vector<std::int64_t> offsets{0, 5};
  const std::vector<float> scores{kNaN, 2, kNaN, 7, -1};
  const std::vector<std::int32_t> rows{0, 1, 2, 3, 4};
  for (const int threads : {1, 3})
    CHECK((list_order(offsets, scores, rows, threads) == std::vector<std::int64_t>{3, 1, 4, 0, 2}));
  const std::vector<double> keys{std::nan(""), 2, -1, std::nan(""), 0};
  CHECK((row_positions(offsets, std::span<const double>(keys), 2) == std::vector<std::int32_t>{3, 2, 0, 4, 1}));
}

void pairs_become_sorted_distinct_rows() {
  const std::vector<std::int32_t> rows{2, 0, 2, 2, 0}, columns{5, 1, 3, 5, 0};
  for (const int threads : {1, 2}) {
    const Csr csr = build_csr(rows, columns, 3, threads);
    CHECK((csr.offsets == std::vector<std::int64_t>{0, 2, 2, 4}));
    CHECK((csr.columns == std::vector<std::int32_t>{0, 1, 3, 5}));
  }
  bool refused = false;
  try {
    build_csr(std::vector<std::int32_t>{3}, std::vector<std::int32_t>{0}, 3, 1);
  } catch (const std::out_of_range&) {
    refused = true;
  }
  CHECK(refused);
}

void checksums_continue() {
  const std::string text = "123456789";
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  CHECK(crc32(bytes, 0) == 0xcbf43926u);  // the check value of CRC-32
  CHECK(crc32(bytes.subspan(4), crc32(bytes.first(4), 0)) == 0xcbf43926u);
}

void distances_are_those_of_plain_loops() {
  for (std::int64_t dim = 1; dim < 40; ++dim) {
    std::vector<float> x(5 * dim), v(dim);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::cos(static_cast<float>(3 * i));
    std::vector<float> out(5);
    simd::squared_distances(x.data(), 5, v.data(), dim, out.data());
    for (std::int64_t n = 0; n < 5; ++n) {
      double expected = 0;
      for (std::int64_t k = 0; k < dim; ++k) expected += std::pow(double(x[n * dim + k]) - v[k], 2);
      CHECK(std::abs(out[n] - expected) <= 1e-5 * (1 + expected));
    }
  }
}

}  // namespace

int main() {
  exceptions_leave_a_parallel_region();
  an_interrupt_is_seen_by_all_threads();
  numbers_of_a_key_do_not_depend_on_anything_else();
  an_epoch_goes_through_every_positive_once_in_runs();
  negatives_are_distinct_and_not_taken();
  rows_with_nan_are_refused_and_lists_are_in_order();
  nan_is_last_in_every_order();
  pairs_become_sorted_distinct_rows();
  checksums_continue();
  distances_are_those_of_plain_loops();
  std::puts("10 unit tests hold");
}
