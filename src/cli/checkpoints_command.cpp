#include "cli/commands.h"

#include <fmt/format.h>

#include <ostream>

#include "base/units.h"
#include "checkpoint/checkpoint_folder.h"
#include "cli/launch_hosts.h"
#include "cli/text_table.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> row_of(const FoundCheckpoint& found, const FoundCheckpoint* best) {
  std::vector<std::string> row{fmt::format("{}", found.step)};
  if (!found.index) {
    row.insert(row.end(), {"", "", "", "", "", "", "damaged: " + found.damage});
    return row;
  }
  const CheckpointIndex& index = *found.index;
  const Metric* metric = find_metric(index.metrics, index.best);
  if (!metric && !index.metrics.empty()) metric = &index.metrics.front();
  row.push_back(fmt::format("{:.2f}", index.epoch));
  row.push_back(fmt::format("{:.4g}", index.loss));
  row.push_back(index.test_loss ? fmt::format("{:.4g}", *index.test_loss) : "");
  row.push_back(metric ? metric_text(*metric) : "");
  row.push_back(format_bytes(index.bytes()));
  row.push_back(index.plan);
  row.push_back(&found == best ? fmt::format("complete, best {}", index.best) : "complete");
  return row;
}

std::string metric_title(const std::vector<FoundCheckpoint>& found) {
  for (const FoundCheckpoint& entry : found)
    if (entry.index && !entry.index->metrics.empty())
      return find_metric(entry.index->metrics, entry.index->best) ? entry.index->best
                                                                  : entry.index->metrics.front().name;
  return "metric";
}

std::string best_key(const std::vector<FoundCheckpoint>& found) {
  for (const FoundCheckpoint& entry : found)
    if (entry.index && !entry.index->best.empty()) return entry.index->best;
  return "";
}

/// `complete`: the newest complete checkpoint; empty if there is none.
std::string advice(const fs::path& path, const fs::path& complete) {
  if (!complete.empty())
    return fmt::format("the newest complete one: resume it with --resume {}", shell_quoted(complete.string()));
  if (is_checkpoint(path))
    return "look for a complete one: trireme checkpoints verify " +
           shell_quoted(path.lexically_normal().parent_path().string());
  return "none is complete: the run cannot be resumed; start a new one without --resume";
}

}  // namespace

int list_checkpoints(const fs::path& path, std::ostream& out) {
  const fs::path folder = checkpoint_folder_of(path);
  const std::vector<FoundCheckpoint> found = find_checkpoints(folder);
  if (found.empty())
    fail_user({folder.string(), "no checkpoints", "the run ended before its first", "look at another run's folder"});
  const FoundCheckpoint* best = best_of(found, best_key(found));
  std::vector<std::vector<std::string>> rows;
  for (const FoundCheckpoint& entry : found) rows.push_back(row_of(entry, best));
  out << text_table({"step", "epoch", "loss", "test loss", metric_title(found), "size", "written under", "state"}, rows,
                    {0, 1, 2, 3, 4, 5});
  return 0;
}

int verify_checkpoints(const fs::path& path, std::ostream& out) {
  std::vector<fs::path> checkpoints;
  if (is_checkpoint(path)) checkpoints.push_back(path);
  else
    for (const FoundCheckpoint& entry : find_checkpoints(checkpoint_folder_of(path))) checkpoints.push_back(entry.path);
  if (checkpoints.empty())
    fail_user({path.string(), "no checkpoints", "the run ended before its first", "look at another run's folder"});
  int damaged = 0;
  fs::path complete;
  for (const fs::path& checkpoint : checkpoints) {
    try {
      verify_checkpoint(checkpoint);
      out << checkpoint.string() << ": complete, every byte as written\n";
      complete = checkpoint;
    } catch (const Error& error) {
      ++damaged;
      out << "damaged: " << damage_in(error) << "\n";
    }
  }
  if (damaged > 0) out << advice(path, complete) << "\n";
  return damaged > 0 ? 1 : 0;
}

}  // namespace trireme
