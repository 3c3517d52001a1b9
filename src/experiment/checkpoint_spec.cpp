#include "experiment/checkpoint_spec.h"

namespace trireme {

CheckpointSpec read_checkpoint_spec(const ConfigTable& table) {
  CheckpointSpec spec;
  if (!table.has("every")) {
    if (!table.keys().empty())
      table.fail("every", "is missing", "say how often: every = \"1 epochs\", or \"500 steps\"");
    return spec;
  }
  spec.where = table.where("every");
  spec.every = table.require_length("every");
  spec.keep = table.get_int("keep", spec.keep, 0);
  spec.best = table.get_string("best", "");
  spec.folder = table.get_string("folder", "");
  spec.ends_on_failure = table.get_choice("on_failure", "go on", {"go on", "end"}) == "end";
  return spec;
}

}  // namespace trireme
