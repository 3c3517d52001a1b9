// The data that every part of a worker (the files of this folder) uses.
#pragma once

#include <fmt/format.h>

#include <string>

#include "runtime/precision.h"
#include "runtime/replicas/replicas.h"
#include "runtime/step.h"
#include "trireme/communicator.h"
#include "trireme/error.h"
#include "trireme/model.h"

namespace trireme {

/// Set before the first step and constant until the last. References must outlive the parts. The parts belong to the
/// worker's thread.
struct WorkerContext {
  const int rank;
  const Model& model;
  const Precision precision;
  const WorkerOptions& options;
  Communicator& world;
  Replicas& replicas;

  /// Ends long segments soon after another worker failed or the user interrupted the run. Errors: StoppedError.
  void stop_if_aborted() const {
    if (const std::string reason = world.abort_reason(); !reason.empty())
      throw StoppedError({fmt::format("worker {}", rank), "stopped", reason, ""});
  }
};

}  // namespace trireme
