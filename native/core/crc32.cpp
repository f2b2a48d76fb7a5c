#include "core/crc32.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tastespace {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb88320;  // bits reversed
constexpr int kAtOnce = 8;

// table[k][b]: what byte b contributes when k more bytes follow.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, kAtOnce> table{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t rest = b;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? kPolynomial : 0);
    table[0][b] = rest;
  }
  for (int k = 1; k < kAtOnce; ++k)
    for (std::uint32_t b = 0; b < 256; ++b)
      table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
  return table;
}();

std::uint32_t by_tables(const std::uint8_t* at, std::size_t n, std::uint32_t rest) {
  for (; n >= kAtOnce; n -= kAtOnce, at += kAtOnce) {
    std::uint32_t low = rest, next = 0;
    for (int k = 0; k < 4; ++k) low ^= static_cast<std::uint32_t>(at[k]) << (8 * k);
    for (int k = 0; k < 4; ++k)
      next ^= kTables[7 - k][(low >> (8 * k)) & 0xff] ^ kTables[3 - k][at[4 + k]];
    rest = next;
  }
  for (; n > 0; --n, ++at) rest = (rest >> 8) ^ kTables[0][(rest ^ *at) & 0xff];
  return rest;
}

#if defined(__x86_64__)

// Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009: 64 bytes at a time
// are folded into the next 64 by products without carry. n is a multiple of 16, 64 or more.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t by_products(const std::uint8_t* at, std::size_t n,
                                                                   std::uint32_t rest) {
  const auto load = [](const std::uint8_t* from) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i by_8 = _mm_set_epi64x(0, 0x0163cd6124), barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const auto folded = [](__m128i x, __m128i by) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
  };
  __m128i x0 = _mm_xor_si128(load(at), _mm_cvtsi32_si128(static_cast<int>(rest)));
  __m128i x1 = load(at + 16), x2 = load(at + 32), x3 = load(at + 48);
  for (at += 64, n -= 64; n >= 64; at += 64, n -= 64) {
    x0 = _mm_xor_si128(folded(x0, by_64), load(at));
    x1 = _mm_xor_si128(folded(x1, by_64), load(at + 16));
    x2 = _mm_xor_si128(folded(x2, by_64), load(at + 32));
    x3 = _mm_xor_si128(folded(x3, by_64), load(at + 48));
  }
  x0 = _mm_xor_si128(folded(x0, by_16), x1);
  x0 = _mm_xor_si128(folded(x0, by_16), x2);
  x0 = _mm_xor_si128(folded(x0, by_16), x3);
  for (; n >= 16; at += 16, n -= 16) x0 = _mm_xor_si128(folded(x0, by_16), load(at));
  // 128 bits to 64, then to 32 by Barrett's reduction.
  const __m128i low_32 = _mm_setr_epi32(~0, 0, ~0, 0);
  x0 = _mm_xor_si128(_mm_srli_si128(x0, 8), _mm_clmulepi64_si128(x0, by_16, 0x10));
  x0 = _mm_xor_si128(_mm_srli_si128(x0, 4), _mm_clmulepi64_si128(_mm_and_si128(x0, low_32), by_8, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(x0, low_32), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(x0, quotient), 1));
}

bool has_products() {
  static const bool found = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return found;
}

#endif

}  // namespace

std::uint32_t crc32(std::span<const std::uint8_t> bytes, std::uint32_t before) {
  std::uint32_t rest = ~before;
  std::size_t done = 0;
#if defined(__x86_64__)
  if (bytes.size() >= 64 && has_products()) {
    done = bytes.size() / 16 * 16;
    rest = by_products(bytes.data(), done, rest);
  }
#endif
  return ~by_tables(bytes.data() + done, bytes.size() - done, rest);
}

}  // namespace tastespace
