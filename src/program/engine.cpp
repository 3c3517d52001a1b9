#include "program/engine.h"

#include "program/engine_state.h"

namespace trireme {

EngineEnd execute(const Program& program, EngineCosts& costs, const EngineOptions& options) {
  return Engine(program, costs, options).run();
}

int enough_batches(const Program& program) { return program.flushes ? 1 : 2 * program.greatest_lag + 2; }

}  // namespace trireme
