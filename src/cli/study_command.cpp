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
      if (!entry.path().string().ends_with(kStudyFileEnding)) continue;
      const std::string name = name_of_study(entry.path());
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
      estimate(prepared, take_stock(prepared, shown));
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
                              estimated_ > 0 ? ", in about " + format_seconds(estimated_) : ""));
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
  /// What an earlier call has left of a job.
  struct KnownJob {
    std::optional<RunResult> row = {};  ///< if it needs no training
    std::string value = "";             ///< the one that its trials chose
    int64_t kept = 0;                   ///< of its trials and its row
    std::vector<const StudyTraining*> missing = {};
  };

  static KnownJob known_job(const PreparedRun& run, size_t job) {
    KnownJob known{.row = run.ruled_out[job]};
    if (known.row) return known;
    StudyTraining training = run.rows[job];
    if (run.run->tuning) {
      const size_t values = run.run->tuning->values.size();
      std::vector<RunResult> trials;
      for (size_t k = job * values; k < (job + 1) * values; ++k) {
        if (const std::optional<RunResult> trial = kept_row(run.trials[k])) trials.push_back(*trial);
        else known.missing.push_back(&run.trials[k]);
      }
      known.kept = int64_t(trials.size());
      known.value = known.missing.empty() ? chosen_value(run, trials) : "";
      if (known.missing.empty() && known.value.empty()) {
        known.row = no_trial(run.jobs[job]);
        return known;
      }
      training = with_value(training, *run.run, known.value);
    }
    if (known.missing.empty()) known.row = kept_row(training);
    if (known.row) ++known.kept;
    else known.missing.push_back(&run.rows[job]);
    return known;
  }

  /// Shows the rows of earlier, so that a report that is written before all runs are trained has them. Returns what is
  /// to be trained.
  std::vector<const StudyTraining*> take_stock(const PreparedRun& run, StudyRunResult& shown) {
    std::vector<const StudyTraining*> missing;
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      const KnownJob known = known_job(run, job);
      kept_ += known.kept;
      missing.insert(missing.end(), known.missing.begin(), known.missing.end());
      if (!known.row) continue;
      shown.rows.result.rows.push_back(*known.row);
      if (run.run->tuning) shown.rows.chosen.push_back(cell_of(known.value));
    }
    if (!shown.rows.result.rows.empty()) complete_comparison(shown.rows.result);
    return missing;
  }

  void estimate(const PreparedRun& run, const std::vector<const StudyTraining*>& missing) {
    to_train_ += int64_t(missing.size());
    if (missing.empty() || interrupted_by_user()) return;
    const double before = estimated_;
    const std::string count = counted(int64_t(missing.size()), "row or trial", "rows and trials");
    const std::optional<TrainingCost> cost =
        in_phase(&progress_, "estimating " + run.run->name, [&] { return measure_cost(run, forks_); });
    if (!cost) {
      progress_.say(fmt::format("{}: {} to train; there is no estimate, because a short training on one device failed",
                                run.run->name, count));
      return;
    }
    for (const StudyTraining* training : missing) {
      estimates_[training->folder] = estimated_seconds(*training, *cost);
      estimated_ += estimates_[training->folder];
    }
    progress_.say(
        fmt::format("{}: {} to train, in about {}", run.run->name, count, format_seconds(estimated_ - before)));
  }

  /// The value of the best trial. Empty: every trial failed.
  static std::string chosen_value(const PreparedRun& run, const std::vector<RunResult>& trials) {
    const std::optional<size_t> best = best_of(trials);
    return best ? run.run->tuning->values[*best] : "";
  }

  static std::string cell_of(const std::string& value) { return value.empty() ? "–" : value; }

  static RunResult no_trial(const Job& job) {
    return row_without_run(job, RunStatus::failed, "no trial ended with a finite loss");
  }

  static StudyTraining with_value(StudyTraining training, const StudyRun& run, const std::string& value) {
    training.words.insert(training.words.end(), {"--set", fmt::format("{}={}", run.tuning->key, value)});
    return training;
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

  /// The value for the job's row, from its trials. Empty: every trial failed, or the user ended the study.
  std::string choose(const PreparedRun& run, size_t job) {
    const size_t values = run.run->tuning->values.size();
    std::vector<RunResult> trials;
    for (size_t k = 0; k < values; ++k) trials.push_back(trained(run.trials[job * values + k], run.time_limit));
    return interrupted_by_user() ? "" : chosen_value(run, trials);
  }

  bool train_run(const PreparedRun& run, StudyRunResult& shown) {
    bool all = true;
    shown.rows.result.rows.clear();
    shown.rows.chosen.clear();
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      StudyTraining training = run.rows[job];
      std::optional<RunResult> row = run.ruled_out[job];
      if (run.run->tuning) {
        const std::string value = row ? "" : choose(run, job);
        shown.rows.chosen.push_back(cell_of(value));
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
