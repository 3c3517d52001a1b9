// The names that an experiment and a plan may use, with a line on each: the footer of the help of train and compare.
#pragma once

#include <string>

namespace trireme {

/// Models, optimizers, schedules and update policies, as their registries list them.
std::string known_names();

}  // namespace trireme
