// SPDX-License-Identifier: MIT

// Three parts with different instruction sets work side by side in one program: each uses its own
// copy of the library, so their tags differ, and their results agree up to rounding.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

const char* run_wide(const float* x, float* y);
const char* run_narrow(const float* x, float* y);
const char* run_narrowest(const float* x, float* y);

int main() {
  constexpr std::size_t count = 2 * 67 * 24;
  std::vector<float> x(count), wide(count), narrow(count), narrowest(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = std::sin(static_cast<float>(i));
  for (int repeat = 0; repeat < 3; ++repeat) {
    const char* wide_tag = run_wide(x.data(), wide.data());
    const char* narrow_tag = run_narrow(x.data(), narrow.data());
    const char* narrowest_tag = run_narrowest(x.data(), narrowest.data());
    if (std::strstr(wide_tag, "_avx2_fma") == nullptr ||
        std::strstr(narrow_tag, "_or_avx") == nullptr ||
        std::strstr(narrowest_tag, "avx") != nullptr) {
      std::printf("tags: %s, %s and %s\n", wide_tag, narrow_tag, narrowest_tag);
      return 1;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!(std::abs(wide[i] - narrow[i]) < 1e-5f && std::abs(wide[i] - narrowest[i]) < 1e-5f)) {
        std::printf("element %zu: %g, %g and %g\n", i, static_cast<double>(wide[i]),
                    static_cast<double>(narrow[i]), static_cast<double>(narrowest[i]));
        return 1;
      }
    }
  }
  return 0;
}
