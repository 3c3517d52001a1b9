// What an experiment and a plan may name, with a line on each: the end of the help of train and compare.
#pragma once

#include <string>

namespace trireme {

/// Models, optimizers, schedules and update policies, as their registries list them.
std::string known_names();

}  // namespace trireme
