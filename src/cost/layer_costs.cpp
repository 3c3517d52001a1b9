#include "cost/layer_costs.h"

namespace trireme {

const char* name_of(Basis basis) {
  switch (basis) {
    case Basis::measured: return "measured";
    case Basis::interpolated: return "interpolated";
    case Basis::extrapolated: return "extrapolated";
    case Basis::datasheet: return "datasheet";
    case Basis::own_times: return "own times";
  }
  return "?";
}

}  // namespace trireme
