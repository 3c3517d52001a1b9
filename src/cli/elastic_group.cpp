#include "cli/elastic_group.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/seconds.h"
#include "report/files.h"
#include "report/run_json.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRecords = "elastic-groups.jsonl";
constexpr const char* kOldRecords = "generations.jsonl";  // in run folders of versions before 0.1

fs::path records_file(const fs::path& run_folder) {
  const fs::path old = run_folder / kOldRecords;
  std::error_code ignored;
  return fs::exists(old, ignored) ? old : run_folder / kRecords;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ElasticGroup, number, folder, plan, reason, ended_at, next_processes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ElasticGroupRecord, number, step, processes, plan, reason, seconds)

std::string to_text(const ElasticGroup& g) { return json_text(g); }

ElasticGroup elastic_group_from(const std::string& text) {
  try {
    return json::parse(text).get<ElasticGroup>();
  } catch (const json::exception&) {
    fail_user({std::string("environment variable ") + kElasticGroupVariable, "is not what trireme launch sets",
               "it is for the launcher and its ranks only", "unset it"});
  }
}

std::optional<ElasticGroup> own_elastic_group(const Variables& variables) {
  const std::optional<std::string> text = variables(kElasticGroupVariable);
  if (!text || text->empty()) return std::nullopt;
  return elastic_group_from(*text);
}

void append_record(const ElasticGroup& g, int processes, const std::string& plan, int64_t step) {
  const double seconds = g.number > 0 ? system_seconds() - g.ended_at : 0;
  const ElasticGroupRecord record{g.number, step, processes, plan, g.reason, seconds};
  AppendFile(records_file(g.folder)).append(json_text(record) + "\n");
}

void complete_records(const ElasticGroup& g, int processes, int64_t step) {
  const std::vector<ElasticGroupRecord> records = read_records(g.folder);
  if (!records.empty() && records.back().number >= g.number) return;
  std::error_code ignored;  // the append below then reports the error
  fs::create_directories(g.folder, ignored);
  append_record(g, processes, g.plan, step);
}

std::vector<ElasticGroupRecord> read_records(const fs::path& run_folder) {
  std::vector<ElasticGroupRecord> records;
  std::ifstream file(records_file(run_folder));
  for (std::string line; std::getline(file, line);) {
    const json j = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!j.is_object()) continue;  // the machine stopped in the middle of the line
    records.push_back(j.get<ElasticGroupRecord>());
  }
  return records;
}

void set_devices(const std::vector<ElasticGroupRecord>& records, RunResult& row) {
  if (records.empty()) return;
  row.devices = records.back().processes;
  row.group_devices.clear();
  if (std::all_of(records.begin(), records.end(), [&](const auto& one) { return one.processes == row.devices; }))
    return;
  row.group_devices.reserve(records.size());
  for (const ElasticGroupRecord& record : records) row.group_devices.push_back(record.processes);
}

void add_earlier_groups(const std::filesystem::path& folder, const EarlierRun& earlier, RunResult& row) {
  add_earlier(earlier, row);
  const std::vector<ElasticGroupRecord> records = read_records(folder);
  std::string plans = records.empty() ? row.plan : records.front().plan;
  for (size_t r = 1; r < records.size(); ++r) {
    const ElasticGroupRecord &from = records[r - 1], &to = records[r];
    row.changes.push_back(
        {.step = to.step, .from = from.plan, .to = to.plan, .reason = to.reason, .seconds = to.seconds});
    if (from.plan != to.plan) plans += " -> " + to.plan;
  }
  set_devices(records, row);
  row.plan = plans;
}

}  // namespace trireme
