// `trireme doctor`: lists the properties of this machine, and those that make training slow.
#pragma once

#include <iosfwd>

namespace trireme {

/// Prints the list and the warnings. `bf16_speed`: of products in bfloat16 compared with float32 (cli/bf16_speed.h).
/// Returns the program's exit code (0: a warning is not a failure).
int run_doctor(std::ostream& out, double bf16_speed);

}  // namespace trireme
