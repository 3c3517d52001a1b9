// A study: runs of experiments, and tables and charts of their results beside published ones. docs/studies.md describes
// the file for users.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/price_file.h"

namespace trireme {

/// How much of a study is trained. Each run may have settings for `quick` and for `full`.
enum class StudySize { quick, usual, full };
const char* name_of(StudySize size);  ///< "quick", "usual", "full"

/// The search for the value of one key, for each row on its own and with the same number of trials.
struct Tuning {
  std::string key;  ///< "optimizer.learning_rate"
  std::vector<std::string> values = {};
  std::vector<std::string> set = {};  ///< settings of the trials only: a shorter length
};

/// An experiment whose strategies are trained.
struct StudyRun {
  std::string name;   ///< of its folder
  std::string title;  ///< "MNIST"
  std::filesystem::path experiment;
  int phase = 0;                       ///< of an experiment with phases; 0: it has none
  std::filesystem::path cluster = {};  ///< rows train in modelled time on these machines; empty: as the experiment says
  std::vector<std::string> set = {};   ///< assignments as of --set, for every size
  /// The global batch of a row is this times its data degree; 0: the experiment's batch, for all rows.
  int64_t batch_per_worker = 0;
  std::vector<std::string> quick = {};  ///< further ones
  std::vector<std::string> full = {};
  /// Each row is trained with each of them, in the quick size with the first one. Empty: with the experiment's.
  std::vector<int64_t> seeds = {};
  std::string metric = "";  ///< the result of its rows and trials; empty: the task's main metric
  std::string base = "";    ///< name of the run whose rows on one device are the base of this run's; empty: its own
  std::optional<Tuning> tuning = {};
  std::vector<StudySize> sizes = {};  ///< in which it is trained; empty: in all

  bool is_of(StudySize size) const;
  std::vector<std::string> settings(StudySize size) const;
  std::vector<int64_t> seeds_of(StudySize size) const;
};

/// A number that the paper gives for a row.
struct PublishedNumber {
  std::string run;       ///< StudyRun::name; empty: of every run of the part
  std::string strategy;  ///< as rows are named
  int devices = 0;       ///< 0: any
  std::string quantity;  ///< as of study/quantities.h
  double value = 0;      ///< seconds, bytes, a share of 1, an amount of money, a number
};

enum class ChartKind {
  lines,    ///< a line per strategy through its rows
  points,   ///< a point per row
  progress  ///< a line per row through its evaluations
};

struct StudyChart {
  ChartKind kind = ChartKind::lines;
  std::string x, y;  ///< quantities; of `progress` x: "time", "epochs" or "samples", and y: "result" or "loss"
};

/// What the report shows, in this order: the text, charts and a table for each run or for all together.
struct StudyPart {
  std::string title;
  std::vector<std::string> text = {};
  std::vector<std::string> runs = {};        ///< names; empty: all
  std::vector<std::string> strategies = {};  ///< of the rows that are shown; empty: all
  std::vector<int> devices = {};             ///< of the rows that are shown; empty: all
  bool together = false;                     ///< all runs in one table and one chart; false: each has its own
  std::vector<std::string> table = {};       ///< quantities, one column each; empty: no table
  std::string sum = "";  ///< a quantity: a table of each strategy's, with a column per run and their sum; empty: none
  /// Machines for rent. The table has a column of a price for each of them: what the row's time costs there. Empty: one
  /// column, by the experiment's or the cluster's own price.
  std::vector<InstancePrice> prices = {};
  bool blocks = false;  ///< a table of each block's strategy
  std::vector<StudyChart> charts = {};
  std::vector<PublishedNumber> published = {};
  bool advice = false;  ///< sentences derived from the rows: which strategy for which aim
};

struct Study {
  std::string name;  ///< of the file
  std::string title;
  std::string source;              ///< the paper; empty: none
  std::vector<std::string> about;  ///< paragraphs
  std::vector<StudyRun> runs;
  std::vector<StudyPart> parts;
};

inline constexpr const char* kStudyFileEnding = ".study.toml";

/// Returns the file's name without its ending.
std::string name_of_study(const std::filesystem::path& file);

/// Reads a study file. Paths in it count from its folder. Errors (user): the file cannot be read; keys, runs,
/// quantities that do not exist; two runs of one name; a part without anything to show.
Study read_study(const std::filesystem::path& file);

/// Returns true if the part shows rows of the run.
bool shows_run(const StudyPart& part, const StudyRun& run);

/// Removes the runs that are not of this size, and the parts that show nothing but them. `file`: in messages. Errors
/// (user): there is no run of this size.
void keep_size(Study& study, StudySize size, const std::filesystem::path& file);

}  // namespace trireme
