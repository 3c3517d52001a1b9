#include "checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiment/read_phases.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool higher_is_better(const std::string& best) { return best != "loss" && kind_of_metric(best).higher_is_better; }

/// Renames the folder before it removes files, so that a partly removed checkpoint does not count as one.
void remove_checkpoint(FileSystem& files, const fs::path& folder, const fs::path& checkpoint) {
  fs::path leaving = checkpoint;
  leaving += kUnfinished;
  files.rename(checkpoint, leaving);
  files.sync_folder(folder);
  clean_up(files, folder);
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kCheckpointIndex, ignored) ||
         (fs::is_directory(path, ignored) && step_in(path.filename().string()));
}

fs::path checkpoint_folder_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path / kCheckpointFolder, ignored)) return path / kCheckpointFolder;
  if (!fs::is_directory(path, ignored))
    fail_user({.where = path.string(),
               .what = "no checkpoints",
               .why = fs::exists(path, ignored) ? "it is not a folder" : "there is no such folder",
               .next = "name a run's folder, or one of its checkpoints"});
  if (fs::is_directory(path / kFirstPhase, ignored))
    fail_user({.where = path.string(),
               .what = "no checkpoints",
               .why = "it is the folder of a run in phases, which has a run for each",
               .next = fmt::format("name a phase's folder: {}", (path / kFirstPhase).string())});
  const std::vector<std::string> names = names_in(path);
  if (std::none_of(names.begin(), names.end(), [](const std::string& name) { return step_in(name).has_value(); }))
    fail_user({.where = path.string(),
               .what = "no checkpoints",
               .why = "it is neither the folder of a run with checkpoints nor a folder of checkpoints",
               .next = "a run writes them if the experiment has [checkpoint] every = \"1 epochs\""});
  return path;
}

std::string damage_in(const Error& error) {
  Diagnosis damage = error.diagnosis();
  damage.next.clear();
  return Error(error.blame(), damage).what();
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  for (const std::string& name : names_in(folder)) {
    const auto step = step_in(name);
    if (!step) continue;
    FoundCheckpoint entry{.path = folder / name, .step = *step, .index = {}, .damage = {}};
    try {
      entry.index = read_checkpoint_index(entry.path);
    } catch (const Error& error) {
      entry.damage = damage_in(error);
    }
    found.push_back(std::move(entry));
  }
  std::sort(found.begin(), found.end(),
            [](const FoundCheckpoint& a, const FoundCheckpoint& b) { return a.step < b.step; });
  return found;
}

std::optional<double> value_of(const CheckpointIndex& index, const std::string& best) {
  std::optional<double> value;
  if (best == "loss") value = index.test_loss;
  else if (const Metric* metric = find_metric(index.metrics, best)) value = metric->value;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

const FoundCheckpoint* best_of(const std::vector<FoundCheckpoint>& found, const std::string& best) {
  if (best.empty()) return nullptr;
  const FoundCheckpoint* winner = nullptr;
  double most = 0;
  for (const FoundCheckpoint& entry : found) {
    const std::optional<double> value = entry.index ? value_of(*entry.index, best) : std::nullopt;
    if (!value || (winner && !(higher_is_better(best) ? *value > most : *value < most))) continue;
    winner = &entry;
    most = *value;
  }
  return winner;
}

void remove_old_checkpoints(FileSystem& files, const fs::path& folder, const CheckpointSpec& spec) {
  if (spec.keep == 0) return;
  const std::vector<FoundCheckpoint> found = find_checkpoints(folder);
  const FoundCheckpoint* best = best_of(found, spec.best);
  int64_t newer = 0;
  for (auto entry = found.rbegin(); entry != found.rend(); ++entry) {
    if (!entry->index || newer++ < spec.keep || &*entry == best) continue;
    remove_checkpoint(files, folder, entry->path);
  }
}

void remove_after(FileSystem& files, const fs::path& folder, int64_t step) {
  for (const FoundCheckpoint& entry : find_checkpoints(folder))
    if (entry.step > step) remove_checkpoint(files, folder, entry.path);
}

}  // namespace trireme
