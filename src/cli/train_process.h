// `trireme train` as one process of many.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/elastic_group.h"
#include "trireme/process_place.h"

namespace trireme {

/// Variable with the network interface that ranks communicate through; where it is not set, PyTorch's own is asked
/// (GLOO_SOCKET_IFNAME).
inline constexpr const char* kInterfaceVariable = "TRIREME_INTERFACE";

/// `elastic_group`: of an elastic run, which wins over flags: its folder, its plan; what is resumed is the run's own
/// checkpoint, where it has one. One rank of a plan with as many workers as there are processes. Rank 0 plans, shows
/// and writes the run; the others are quiet but for the run folder's logs/rank-N.log. Returns the exit code, which is
/// not 0 on any rank of a run that failed. Errors (user): as trireme train, on rank 0, also for what another rank has
/// otherwise, which is named.
int run_train_process(TrainOptions options, const ProcessPlace& place,
                      const std::optional<ElasticGroup>& elastic_group = {});

/// For verbs other than train, which as several processes would do the same several times, each in the others' way.
/// Errors (user): a launcher started this process as one of several.
void check_started_once(const std::string& verb);

}  // namespace trireme
