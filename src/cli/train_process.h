// `trireme train` as one process of many.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/elastic_group.h"
#include "comm/rendezvous/process_place.h"

namespace trireme {

/// Variable with the network interface through which ranks communicate. If it is not set, PyTorch's own variable is
/// used (GLOO_SOCKET_IFNAME).
inline constexpr const char* kInterfaceVariable = "TRIREME_INTERFACE";

/// Works as one rank of a plan with as many workers as there are processes. Rank 0 plans, shows and writes the run; the
/// other ranks write only to the run folder's logs/rank-N.log. `elastic_group`: of an elastic run; its folder and plan
/// override the flags, and the run resumes its own checkpoint if it has one. Returns the exit code, which is not 0 on
/// any rank of a run that failed. Errors (user): as trireme train, on rank 0; also if another rank has a different
/// input, which is named.
int run_train_process(TrainOptions options, const ProcessPlace& place,
                      const std::optional<ElasticGroup>& elastic_group = {});

/// For verbs other than train, which would do the same work in each process. Errors (user): a launcher started this
/// process as one of several.
void check_started_once(const std::string& verb);

}  // namespace trireme
