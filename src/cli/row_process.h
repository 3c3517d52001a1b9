// A row of a comparison, trained in a process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/jobs.h"
#include "metrics/result.h"

namespace trireme {

class ForkServer;
struct ChildEnd;
struct Experiment;
class Progress;

/// Errors (user): `elastic`. The rows of a comparison or a study are of a fixed number of workers.
void refuse_elastic_rows(const Experiment& experiment);

/// Returns why a process ended that trained or measured, in words.
std::string reason_of(const ChildEnd& end);

/// Runs this program with `arguments`, those of `trireme train`, or of a launch of it, with --messages, and shows the
/// steps under `label`; the caller ends that line of `progress`. Returns the row that the process reported, with the
/// reason of `folder`, its run folder: a launcher adds there which rank was the cause. A process that ends without a
/// row, or that is killed a while after `time_limit` seconds (0: never), gives a row with the reason.
RunResult run_row_process(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                          const std::string& label, const Job& job, double time_limit, Progress& progress,
                          ForkServer& forks);

}  // namespace trireme
