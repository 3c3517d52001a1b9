// Job scripts for other launchers.
#pragma once

#include <string>
#include <vector>

#include "cli/launch_hosts.h"
#include "trireme/backend.h"

namespace trireme {

struct ScriptRequest {
  std::vector<LaunchHost> hosts;
  std::string interface;                 ///< empty: not chosen
  int port = 0;                          ///< where rank 0 listens; 0: not chosen
  const BackendKind* backend = nullptr;  ///< what connects the ranks
  std::vector<std::string> words;        ///< after "trireme"
};

/// "slurm", "kubernetes", "mpi", "torchrun".
const std::vector<std::string>& script_kinds();

/// What to give to sbatch, to kubectl apply -f, or to a shell.
/// Errors (user): hosts that such a launcher cannot have (Kubernetes, and Slurm with different numbers of processes).
std::string launch_script(const std::string& kind, const ScriptRequest& request);

}  // namespace trireme
