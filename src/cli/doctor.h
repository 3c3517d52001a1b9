// `trireme doctor`: what this machine has, and what of it will be slow.
#pragma once

#include <iosfwd>

namespace trireme {

/// Prints the list and the warnings; returns the program's exit code (0: warnings are no failure).
int run_doctor(std::ostream& out);

}  // namespace trireme
