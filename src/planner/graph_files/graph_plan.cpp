#include "planner/graph_files/graph_plan.h"

#include <fmt/format.h>

#include "planner/graph_files/order_ideals.h"

namespace trireme {

std::string proof_in_words(size_t states, bool complete) {
  if (states == 0)
    return fmt::format("the work divided among all devices; the graph has more than {} order ideals",
                       OrderIdeals::kMost);
  if (complete) return fmt::format("all {} order ideals searched", states);
  return fmt::format("the time limit ended the search of {} order ideals", states);
}

}  // namespace trireme
