// `trireme doctor`: lists the properties of this machine, and those that make training slow.
#pragma once

#include <iosfwd>

namespace trireme {

/// Prints the list and the warnings. Returns the program's exit code (0: a warning is not a failure).
int run_doctor(std::ostream& out);

}  // namespace trireme
