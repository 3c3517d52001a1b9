// An elastic run (`elastic = true`) continues when ranks are lost. It is trained by one group of processes after
// another. Each group resumes the run's newest checkpoint, in the same run folder. This file: the data that the
// launcher passes to a group, and the records that the groups leave for each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous/process_place.h"
#include "metrics/result.h"
#include "report/earlier_run.h"

namespace trireme {

inline constexpr const char* kElasticGroupVariable = "TRIREME_ELASTIC_GROUP";

/// One group.
struct ElasticGroup {
  int number = 0;                ///< from 0
  std::filesystem::path folder;  ///< of the run
  std::string plan;              ///< for the processes of the group, in the form of --plan
  std::string reason = {};       ///< why it replaces the previous group; "" for the first group
  double ended_at = 0;           ///< time when the previous group ended, in seconds of the system clock
  int next_processes = 0;        ///< size of the group to which it makes room when its launcher requests it; 0: none
};

/// The variable's text, and its inverse. Errors (user): invalid text.
std::string to_text(const ElasticGroup& elastic_group);
ElasticGroup elastic_group_from(const std::string& text);
/// Returns nullopt if this process does not belong to an elastic run.
std::optional<ElasticGroup> own_elastic_group(const Variables& variables = environment());

double system_seconds();

/// The start of a group: a line of the run folder's elastic-groups.jsonl.
struct ElasticGroupRecord {
  int number = 0;
  int64_t step = 0;  ///< steps of earlier groups that were kept
  int processes = 0;
  std::string plan;    ///< short description
  std::string reason;  ///< ElasticGroup::reason
  /// From the end of the previous group until training continued, or until this group's end if it ended before.
  double seconds = 0;
};

/// Appends the line of a group that begins training now to the run folder's file. `plan`: short description.
void append_record(const ElasticGroup& group, int processes, const std::string& plan, int64_t step);
/// Call it after the group's end. Appends the group's line if the group ended before it wrote one itself. `processes`
/// and `step`: with which it was started, and from which it would have resumed. Creates the folder if necessary. Run
/// error: the line cannot be written.
void complete_records(const ElasticGroup& group, int processes, int64_t step);
/// Returns the records in order; none if the folder has no such file.
std::vector<ElasticGroupRecord> read_records(const std::filesystem::path& run_folder);
/// Sets the row's devices to those of the groups. No records: leaves them.
void set_devices(const std::vector<ElasticGroupRecord>& records, RunResult& row);
/// Puts the results of the run's earlier groups, of which the run's folder has records, before those of the last group.
void add_earlier_groups(const std::filesystem::path& folder, const EarlierRun& earlier, RunResult& row);

}  // namespace trireme
