#include "cli/study_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
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
    link_bases(study.runs, result_.runs);
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
      if (!prepared.seeds.empty()) shown.rows.result.seed = uint64_t(prepared.seeds.front());
      for (size_t k = 1; k < prepared.seeds.size(); ++k) {
        shown.rows.more_seeds.push_back(prepared.header);
        shown.rows.more_seeds.back().seed = uint64_t(prepared.seeds[k]);
      }
      if (!prepared.problem.empty()) {
        progress_.say(fmt::format("{}: {}", run.name, prepared.problem));
        continue;
      }
      estimate(prepared, take_stock(prepared, shown));
    }
  }

  void describe() const {
    size_t rows = 0, trials = 0, wrong = 0;
    for (const PreparedRun& run : runs_) {
      rows += run.rows.size();
      trials += run.trials.size();
      wrong += run.problem.empty() ? 0 : 1;
    }
    progress_.say(fmt::format("{}: {} in {}{}; {} from earlier, {} to train{}{}", result_.study->title,
                              counted(int64_t(rows), "row"), counted(int64_t(runs_.size()), "run"),
                              trials ? ", and " + counted(int64_t(trials), "trial") : "", kept_, to_train_,
                              estimated_ > 0 ? ", in about " + format_seconds(estimated_) : "",
                              wrong ? fmt::format("; {} cannot be trained", counted(int64_t(wrong), "run")) : ""));
  }

  /// False if runs have errors, which prepare() has printed.
  bool can_train_all() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const PreparedRun& run) { return run.problem.empty(); });
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
    return try_to_write() && all && !interrupted_by_user();
  }

  const StudyResult& result() const { return result_; }

 private:
  /// The results of a job from an earlier call.
  struct KnownJob {
    std::vector<RunResult> rows = {};  ///< by seed; empty if one of them must be trained
    std::string value = "";            ///< the one that its trials chose
    int64_t kept = 0;                  ///< of its trials and its rows
    std::vector<const StudyTraining*> missing = {};
  };

  /// The trainings of a job's row, by seed.
  static std::span<const StudyTraining> rows_of(const PreparedRun& run, size_t job) {
    const size_t seeds = std::max<size_t>(1, run.seeds.size());
    return std::span(run.rows).subspan(job * seeds, seeds);
  }

  static void show(std::vector<RunResult> by_seed, StudyRows& rows) {
    rows.result.rows.push_back(std::move(by_seed.front()));
    for (size_t k = 0; k < rows.more_seeds.size(); ++k) rows.more_seeds[k].rows.push_back(std::move(by_seed[k + 1]));
  }

  static void complete(StudyRows& rows) {
    complete_comparison(rows.result);
    for (ExperimentResult& of_seed : rows.more_seeds) complete_comparison(of_seed);
  }

  static KnownJob known_job(const PreparedRun& run, size_t job) {
    KnownJob known;
    const std::span<const StudyTraining> trainings = rows_of(run, job);
    const auto all = [&](const RunResult& row) { known.rows.assign(trainings.size(), row); };
    if (run.ruled_out[job]) {
      all(*run.ruled_out[job]);
      return known;
    }
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
        all(no_trial(run.jobs[job]));
        return known;
      }
    }
    const bool needs_trials = !known.missing.empty();
    for (const StudyTraining& training : trainings) {
      const std::optional<RunResult> row =
          needs_trials ? std::nullopt : kept_row(with_value(training, *run.run, known.value));
      if (row) known.rows.push_back(*row);
      else known.missing.push_back(&training);
    }
    known.kept += int64_t(known.rows.size());
    if (!known.missing.empty()) known.rows.clear();
    return known;
  }

  /// Adds the rows of earlier calls to `shown`, so that a report that is written before all runs are trained has them.
  /// Returns the trainings that are still to be made.
  std::vector<const StudyTraining*> take_stock(const PreparedRun& run, StudyRunResult& shown) {
    std::vector<const StudyTraining*> missing;
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      const KnownJob known = known_job(run, job);
      kept_ += known.kept;
      missing.insert(missing.end(), known.missing.begin(), known.missing.end());
      if (known.rows.empty()) continue;
      show(known.rows, shown.rows);
      if (run.run->tuning) shown.rows.chosen.push_back(cell_of(known.value));
    }
    if (!shown.rows.result.rows.empty()) complete(shown.rows);
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
    if (!run.tuning) return training;
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
    RunResult row = with_main_metric(
        run_row_process(words, training.folder, label, training.job, time_limit, progress_, forks_), training.metric);
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

  /// Returns the value that the job's trials choose for its row. Empty: every trial failed, or the user ended the
  /// study.
  std::string choose(const PreparedRun& run, size_t job) {
    const size_t values = run.run->tuning->values.size();
    std::vector<RunResult> trials;
    for (size_t k = 0; k < values; ++k) trials.push_back(trained(run.trials[job * values + k], run.time_limit));
    return interrupted_by_user() ? "" : chosen_value(run, trials);
  }

  bool train_run(const PreparedRun& run, StudyRunResult& shown) {
    bool all = true;
    shown.rows.result.rows.clear();
    for (ExperimentResult& of_seed : shown.rows.more_seeds) of_seed.rows.clear();
    shown.rows.chosen.clear();
    for (size_t job = 0; job < run.jobs.size(); ++job) {
      std::optional<RunResult> row = run.ruled_out[job];
      std::string value;
      if (run.run->tuning) {
        if (!row) value = choose(run, job);
        shown.rows.chosen.push_back(cell_of(value));
        if (!row && value.empty())
          row = interrupted_by_user() ? row_without_run(run.jobs[job], RunStatus::interrupted, kStoppedByUser)
                                      : no_trial(run.jobs[job]);
      }
      std::vector<RunResult> by_seed;
      for (const StudyTraining& training : rows_of(run, job)) {
        by_seed.push_back(row ? *row : trained(with_value(training, *run.run, value), run.time_limit));
        const RunStatus status = by_seed.back().status;
        all = all && status != RunStatus::failed && status != RunStatus::interrupted;
      }
      show(std::move(by_seed), shown.rows);
      complete(shown.rows);
      try_to_write();
    }
    try {
      RunFolder(inputs_.folder / run.run->name, IfExists::go_on).finish(shown.rows.result);
    } catch (const Error& error) {
      progress_.say(fmt::format("{}; the study continues", error.what()));
      return false;
    }
    return all;
  }

  /// Returns false, and says why, if the report cannot be written: a full disk must not end the training.
  bool try_to_write() {
    try {
      write_file_atomically(inputs_.folder / "report.html", study_page(result_));
      write_json_file(inputs_.folder / "study.json", study_json(result_));
      return true;
    } catch (const Error& error) {
      progress_.say(error.what());
      return false;
    }
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

/// While it exists, no other study works in the folder. Some file systems know no locks; there it does nothing.
class FolderLock {
 public:
  /// Errors (user): another study works in the folder.
  explicit FolderLock(const fs::path& folder)
      : file_(::open((folder / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(file_);
    fail_user({folder.string(), "cannot be used", "another study is working in it",
               "wait for its end, or choose another folder with --out"});
  }
  ~FolderLock() {
    if (file_ >= 0) ::close(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int file_;
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
  const fs::path file = find_study(options.study);
  Study study = read_study(file);
  const StudySize size = options.quick ? StudySize::quick : options.full ? StudySize::full : StudySize::usual;
  keep_size(study, size, file);
  const fs::path folder = options.out.empty() ? default_folder(study, size) : options.out;
  Progress progress;
  std::optional<FolderLock> lock;
  if (!options.dry_run) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail_user({folder.string(), "cannot be created", error.message(), "choose another folder with --out"});
    lock.emplace(folder);
  }
  StudyTrainer trainer(study, {size, options.data_dir, folder}, progress, forks);
  trainer.prepare();
  trainer.describe();
  if (options.dry_run) return trainer.can_train_all() ? 0 : 1;
  const bool all = trainer.train();
  std::cout << "\n";
  for (const std::string& line : study_answer(trainer.result())) std::cout << line << "\n";
  std::cout << "study folder: " << folder.string() << "\nreport: " << (folder / "report.html").string() << "\n"
            << std::flush;
  return all ? 0 : 1;
}

}  // namespace trireme
