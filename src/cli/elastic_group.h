// A run that outlives its ranks (`elastic = true`) is trained by one group of processes after another, each of which
// goes on from the run's newest checkpoint, in the same run folder. What the launcher tells a group, and what the
// groups leave for each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trireme/process_place.h"

namespace trireme {

inline constexpr const char* kElasticGroupVariable = "TRIREME_ELASTIC_GROUP";

/// One group.
struct ElasticGroup {
  int number = 0;                ///< from 0
  std::filesystem::path folder;  ///< of the run
  std::string plan;              ///< for so many processes as there are, as --plan takes it
  std::string reason = {};       ///< why it takes the place of the one before; "" of the first
  double ended_at = 0;           ///< when that one had ended, in seconds of the system clock
  int next_processes = 0;        ///< of the group that it makes room for when its launcher asks it to; 0: of none
};

/// The variable's text, and back. Errors (user): another text.
std::string to_text(const ElasticGroup& elastic_group);
ElasticGroup elastic_group_from(const std::string& text);
/// nullopt: this process is of no such run.
std::optional<ElasticGroup> own_elastic_group(const Variables& variables = environment());

double system_seconds();

/// What a group began with: a line of the run folder's elastic-groups.jsonl.
struct ElasticGroupRecord {
  int number = 0;
  int64_t step = 0;  ///< steps done by those before it that were kept
  int processes = 0;
  std::string plan;    ///< in short
  std::string reason;  ///< ElasticGroup::reason
  double seconds =
      0;  ///< from the end of the group before until training went on, or until this one's where it ended before
};

/// The groups of an elastic run leave in its folder what each of them began with: the line of one that trains from now
/// on. `plan`: in short.
void append_record(const ElasticGroup& group, int processes, const std::string& plan, int64_t step);
/// After the group's end: its line, where it ended before it wrote one itself. `processes`, `step`: that it was started
/// with, and would have gone on from. The folder is made where there is none. Run error: it cannot be written.
void complete_records(const ElasticGroup& group, int processes, int64_t step);
/// In order; of a folder without any: none.
std::vector<ElasticGroupRecord> read_records(const std::filesystem::path& run_folder);

}  // namespace trireme
