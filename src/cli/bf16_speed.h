// How fast bfloat16 is on this machine's processor.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

/// Returns how many times as fast as float32 a matrix product is in bfloat16. Measures for about half a second, and
/// keeps the result in a file of `cache`, by processor and libtorch; a file that cannot be read or written is ignored.
double bf16_speed(const std::filesystem::path& cache);

/// Returns a warning if bfloat16 is clearly slower than float32; otherwise "". `speed`: as bf16_speed returns it.
std::string bf16_warning(double speed);

}  // namespace trireme
