#include "core/cpu.hpp"

namespace tastespace {

const char* best_simd_variant() noexcept {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  __builtin_cpu_init();
  // The features that the x86-64-v4 and v3 levels add; testing them one by one works with every
  // compiler, while the names of the levels are known only to recent ones.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) return "v4";
  if (v3) return "v3";
#endif
  return "generic";
}

}  // namespace tastespace
