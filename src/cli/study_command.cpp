#include "cli/study_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/seconds.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/fork_server.h"
#include "cli/row_process.h"
#include "cli/study_rows.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "study/page.h"
#include "train/compare.h"
#include "trireme/error.h"
#include "trireme/program.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStudies = "examples/studies";

/// Folders with studies: below the working folder, and beside the program where it is built or installed.
std::vector<fs::path> study_folders() {
  std::vector<fs::path> folders{kStudies};
  std::error_code ignored;
  for (fs::path up = fs::read_symlink("/proc/self/exe", ignored).parent_path(); up.has_relative_path();
       up = up.parent_path())
    for (const fs::path& folder : {up / kStudies, up / "share/doc/trireme" / kStudies})
      if (fs::is_directory(folder, ignored)) folders.push_back(folder);
  return folders;
}

/// The studies that come with the program, by name.
std::vector<std::pair<std::string, fs::path>> known_studies() {
  std::vector<std::pair<std::string, fs::path>> studies;
  std::error_code ignored;
  for (const fs::path& folder : study_folders())
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string file = entry.path().filename().string(), ending = kStudyFileEnding;
      if (!file.ends_with(ending)) continue;
      const std::string name = file.substr(0, file.size() - ending.size());
      if (std::none_of(studies.begin(), studies.end(), [&](const auto& study) { return study.first == name; }))
        studies.emplace_back(name, entry.path());
    }
  std::sort(studies.begin(), studies.end());
  return studies;
}

fs::path find_study(const std::string& wanted) {
  if (fs::is_regular_file(wanted)) return wanted;
  std::vector<std::string> names;
  for (const auto& [name, file] : known_studies()) {
    if (name == wanted) return file;
    names.push_back(name);
  }
  const std::string near = closest_match(wanted, names);
  fail_user({"study", "\"" + wanted + "\"", "is neither a file nor a study that comes with the program",
             near.empty() ? "trireme study lists them" : fmt::format("did you mean {}?", near)});
}

int list_studies() {
  for (const auto& [name, file] : known_studies())
    std::cout << fmt::format("{:<18} {} ({})\n", name, read_study(file).title, file.string());
  return 0;
}

/// Trains the rows of a study one after the other and keeps its report up to date.
class StudyTrainer {
 public:
  StudyTrainer(const Study& study, StudyInputs inputs, Progress& progress, ForkServer& forks)
      : inputs_(std::move(inputs)), progress_(progress), forks_(forks) {
    result_.study = &study;
    result_.size = inputs_.size;
    result_.runs.resize(study.runs.size());
  }

  /// Reads all runs, and estimates how long those take that are not trained yet.
  void prepare() {
    for (const StudyRun& run : result_.study->runs) {
      runs_.push_back(in_phase(&progress_, "reading " + run.name, [&] { return prepare_run(run, inputs_); }));
      PreparedRun& prepared = runs_.back();
      StudyRunResult& shown = result_.runs[runs_.size() - 1];
      shown.problem = prepared.problem;
      shown.folder = run.name;
      shown.rows.result = prepared.header;
      if (!prepared.problem.empty()) progress_.say(fmt::format("{}: {}", run.name, prepared.problem));
      show_known_rows(prepared, shown);
      estimate(prepared);
    }
  }

  void describe() const {
    size_t rows = 0, trials = 0;
    for (const PreparedRun& run : runs_) {
      rows += run.rows.size();
      trials += run.trials.size();
    }
    progress_.say(fmt::format("{}: {} in {}{}; {} from earlier, {} to train{}", result_.study->title,
                              counted(int64_t(rows), "row"), counted(int64_t(runs_.size()), "run"),
                              trials ? ", and " + counted(int64_t(trials), "trial") : "", kept_, to_train_,
                              to_train_ ? ", in about " + format_seconds(estimated_) : ""));
  }

  /// Returns false if a run or a row failed, or the user ended the study.
  bool train() {
    bool all = true;
    for (size_t k = 0; k < runs_.size() && !interrupted_by_user(); ++k) {
      if (!runs_[k].problem.empty()) {
        all = false;
        continue;
      }
      all = train_run(runs_[k], result_.runs[k]) && all;
    }
    write();
    return all && !interrupted_by_user();
  }

  const StudyResult& result() const { return result_; }

 private:
  void estimate(const PreparedRun& run) {
    std::vector<const StudyTraining*> missing;
    const size_t values = run.jobs.empty() ? 0 : run.trials.size() / run.jobs.size();
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      if (run.ruled_out[job]) continue;
      for (size_t k = job * values; k < (job + 1) * values; ++k) {
        if (kept_row(run.trials[k])) ++kept_;
        else missing.push_back(&run.trials[k]);
      }
      std::string value;
      if (known_row(run, job, value)) ++kept_;
      else missing.push_back(&run.rows[job]);
    }
    to_train_ += int64_t(missing.size());
    if (missing.empty() || interrupted_by_user()) return;
    const double before = estimated_;
    const std::optional<TrainingCost> cost =
        in_phase(&progress_, "estimating " + run.run->name, [&] { return measure_cost(run, forks_); });
    if (!cost) {
      progress_.say(fmt::format("{}: {} to train; there is no estimate, because a short training on one device failed",
                                run.run->name, counted(int64_t(missing.size()), "row or trial", "rows and trials")));
      return;
    }
    for (const StudyTraining* training : missing) {
      estimates_[training->folder] = estimated_seconds(*training, *cost);
      estimated_ += estimates_[training->folder];
    }
    progress_.say(fmt::format("{}: {} to train, in about {}", run.run->name,
                              counted(int64_t(missing.size()), "row or trial", "rows and trials"),
                              format_seconds(estimated_ - before)));
  }

  /// The row of a job, if it needs no training. `value`: the one that its trials chose.
  static std::optional<RunResult> known_row(const PreparedRun& run, size_t job, std::string& value) {
    if (run.ruled_out[job]) return run.ruled_out[job];
    if (!run.run->tuning) return kept_row(run.rows[job]);
    const size_t values = run.run->tuning->values.size();
    std::vector<RunResult> trials;
    for (size_t k = job * values; k < (job + 1) * values; ++k) {
      const std::optional<RunResult> trial = kept_row(run.trials[k]);
      if (!trial) return std::nullopt;
      trials.push_back(*trial);
    }
    const std::optional<size_t> best = best_of(trials);
    if (!best) return no_trial(run.jobs[job]);
    value = run.run->tuning->values[*best];
    return kept_row(with_value(run.rows[job], *run.run, value));
  }

  static RunResult no_trial(const Job& job) {
    return row_without_run(job, RunStatus::failed, "no trial ended with a finite loss");
  }

  static StudyTraining with_value(StudyTraining training, const StudyRun& run, const std::string& value) {
    training.words.insert(training.words.end(), {"--set", fmt::format("{}={}", run.tuning->key, value)});
    return training;
  }

  /// A report that is written before all runs are trained has the rows of earlier.
  static void show_known_rows(const PreparedRun& run, StudyRunResult& shown) {
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      std::string value;
      const std::optional<RunResult> row = known_row(run, job, value);
      if (!row) continue;
      shown.rows.result.rows.push_back(*row);
      if (run.run->tuning) shown.rows.chosen.push_back(value.empty() ? "–" : value);
    }
    if (!shown.rows.result.rows.empty()) complete_comparison(shown.rows.result);
  }

  RunResult trained(const StudyTraining& training, double time_limit) {
    if (const std::optional<RunResult> kept = kept_row(training)) return *kept;
    if (interrupted_by_user())
      return row_without_run(training.job, RunStatus::interrupted, "stopped by the user before it began");
    begin_training(training);
    std::vector<std::string> words = training.words;
    words.insert(words.end(), {"--out", training.folder.string()});
    const double began = steady_seconds();
    const std::string label = fmt::format("{}/{} {}{}", trained_ + 1, to_train_, training.job.label, time_left());
    RunResult row = run_row_process(words, label, training.job, time_limit, progress_, forks_);
    progress_.end(label, row);
    ++trained_;
    spent_ += steady_seconds() - began;
    if (const auto found = estimates_.find(training.folder); found != estimates_.end())
      spent_estimate_ += found->second;
    return row;
  }

  /// " (5 min left)", from the estimates and how far off they were so far; "" if it is less than a minute.
  std::string time_left() const {
    const double factor = spent_estimate_ > 0 ? spent_ / spent_estimate_ : 1;
    const double minutes = (estimated_ - spent_estimate_) * factor / 60;
    return minutes < 1 ? "" : fmt::format(" ({:.0f} min left)", minutes);
  }

  /// The value for the job's row, from its trials. Empty: every trial failed.
  std::string choose(const PreparedRun& run, size_t job) {
    const size_t values = run.run->tuning->values.size();
    std::vector<RunResult> trials;
    for (size_t k = 0; k < values; ++k) trials.push_back(trained(run.trials[job * values + k], run.time_limit));
    const std::optional<size_t> best = best_of(trials);
    return best ? run.run->tuning->values[*best] : "";
  }

  bool train_run(const PreparedRun& run, StudyRunResult& shown) {
    bool all = true;
    shown.rows.result.rows.clear();
    shown.rows.chosen.clear();
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      StudyTraining training = run.rows[job];
      std::optional<RunResult> row = run.ruled_out[job];
      if (run.run->tuning) {
        std::string value = row ? "" : choose(run, job);
        if (interrupted_by_user()) value.clear();  // some trials are missing
        shown.rows.chosen.push_back(value.empty() ? "–" : value);
        if (!row && value.empty())
          row = interrupted_by_user() ? row_without_run(run.jobs[job], RunStatus::interrupted, "stopped by the user")
                                      : no_trial(run.jobs[job]);
        training = with_value(training, *run.run, value);
      }
      if (!row) row = trained(training, run.time_limit);
      all = all && row->status != RunStatus::failed && row->status != RunStatus::interrupted;
      shown.rows.result.rows.push_back(std::move(*row));
      complete_comparison(shown.rows.result);
      write();
    }
    RunFolder(inputs_.folder / run.run->name, IfExists::go_on).finish(shown.rows.result);
    return all;
  }

  void write() {
    write_file_atomically(inputs_.folder / "report.html", study_page(result_));
    write_json_file(inputs_.folder / "study.json", study_json(result_));
  }

  const StudyInputs inputs_;
  Progress& progress_;
  ForkServer& forks_;
  StudyResult result_;
  std::vector<PreparedRun> runs_;
  std::map<fs::path, double> estimates_;  ///< seconds, by the folder of a training
  double estimated_ = 0, spent_ = 0, spent_estimate_ = 0;
  int64_t kept_ = 0, to_train_ = 0, trained_ = 0;
};

fs::path default_folder(const Study& study, StudySize size) {
  const std::string ending = size == StudySize::usual ? "" : fmt::format("-{}", name_of(size));
  return fs::path("studies") / (study.name + ending);
}

}  // namespace

int run_study(const StudyOptions& options) {
  ForkServer forks(run_program);  // before there are threads
  interrupted_by_user();
  if (options.study.empty()) return list_studies();
  const Study study = read_study(find_study(options.study));
  const StudySize size = options.quick ? StudySize::quick : options.full ? StudySize::full : StudySize::usual;
  const fs::path folder = options.out.empty() ? default_folder(study, size) : options.out;
  Progress progress;
  StudyTrainer trainer(study, {size, options.data_dir, folder}, progress, forks);
  trainer.prepare();
  trainer.describe();
  if (options.dry_run) return 0;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_user({folder.string(), "cannot be created", error.message(), "choose another folder with --out"});
  const bool all = trainer.train();
  std::cout << "\n";
  for (const std::string& line : study_answer(trainer.result())) std::cout << line << "\n";
  std::cout << "study folder: " << folder.string() << "\nreport: " << (folder / "report.html").string() << "\n"
            << std::flush;
  return all ? 0 : 1;
}

}  // namespace trireme
