// Counter-based random numbers: each sequence is computed from (seed, epoch, index), no generator state is carried.
#pragma once

#include <bit>
#include <cstdint>

namespace tastespace {

inline std::uint64_t mix64(std::uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The numbers of a key (seed, epoch, index) are the same on every thread and in every order of use.
class CounterRng {
 public:
  CounterRng(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index)
      : counter_(mix64(mix64(mix64(seed + 0x9e3779b97f4a7c15ULL) + epoch) + index)) {}

  std::uint64_t next() { return mix64(counter_ += 0x9e3779b97f4a7c15ULL); }

  // Uniform in [0, n). The bias of the multiplication is below n / 2^64.
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }

  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t counter_;
};

// A pseudo-random permutation of 0 ... n - 1 that needs no memory: Feistel rounds, four of them, on pairs of digits (left, right),
// the left one below a power of two near the root of n, the right one below what then holds n, repeated until the value
// lies below n. All pairs but a few do: a repetition is a branch that cannot be predicted.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
      : Permutation(n, CounterRng(seed, epoch, ~std::uint64_t{0})) {}

  // With the keys of `rng`. Two rounds take half of the time, and are enough to shuffle a short list.
  Permutation(std::uint64_t n, CounterRng rng, int n_rounds = kRounds) : n_(n), n_rounds_(n_rounds) {
    left_bits_ = n > 1 ? std::bit_width(n - 1) / 2 : 0;
    left_mask_ = (std::uint64_t{1} << left_bits_) - 1;
    n_right_ = (n + left_mask_) >> left_bits_;
    for (int round = 0; round < n_rounds; ++round) keys_[round] = rng.next();
  }

  std::uint64_t operator()(std::uint64_t x) const {
    do {
      std::uint64_t left = x & left_mask_, right = x >> left_bits_;
      for (int round = 0; round < n_rounds_; round += 2) {
        left ^= mix64(right + keys_[round]) & left_mask_;
        right += static_cast<std::uint64_t>((static_cast<unsigned __int128>(mix64(left + keys_[round + 1])) * n_right_) >> 64);
        right -= n_right_ & (std::uint64_t{0} - static_cast<std::uint64_t>(right >= n_right_));
      }
      x = (right << left_bits_) | left;
    } while (x >= n_);
    return x;
  }

 private:
  static constexpr int kRounds = 4;
  std::uint64_t n_, left_mask_, n_right_;
  int left_bits_, n_rounds_;
  std::uint64_t keys_[kRounds];
};

}  // namespace tastespace
