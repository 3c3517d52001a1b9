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
  int port = 0;                          ///< port on which rank 0 listens; 0: not chosen
  const BackendKind* backend = nullptr;  ///< connects the ranks
  std::vector<std::string> words;        ///< after "trireme"
  bool bind = true;                      ///< false: the launcher must not bind processes to cores
};

/// "slurm", "kubernetes", "mpi", "torchrun".
const std::vector<std::string>& script_kinds();

/// Returns a file for sbatch, for kubectl apply -f, or for a shell. Errors (user): hosts that the launcher does not
/// support (Kubernetes, and Slurm with different numbers of processes); a port that it chooses itself.
std::string launch_script(const std::string& kind, const ScriptRequest& request);

}  // namespace trireme
