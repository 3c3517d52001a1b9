// Which rows are the fastest, and how sure that is. docs/comparison.md explains the rules to users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/result.h"

namespace trireme {

/// Rows whose intervals overlap by a larger share of the shorter one are too close to call. With equal intervals, half
/// is where the median of each row reaches into the interval of the other.
constexpr double kWideOverlap = 0.5;

/// Steps vary a lot if the 90th percentile is more than this many times the 10th. Steps of one plan do the same work,
/// so on an idle machine they differ by a few tenths at most; a larger difference has a cause outside the plan.
constexpr double kScatter = 1.5;

/// The speed of the cores (RunResult::core_seconds) disturbs a comparison if it was higher by a larger factor during
/// one row than during another.
constexpr double kOtherSpeed = 1.1;

/// The same for the speed of the memory, of which a step sees less: of a small convolutional network, a fifth.
constexpr double kOtherMemory = 1.5;

/// A prediction is far off if predicted and measured time differ by a larger factor. Most predictions are within a
/// tenth (docs/simulation.md).
constexpr double kFarOff = 1.5;

/// Times without intervals are equal if they differ by less: their factor is printed as 1.00.
constexpr double kEqual = 0.005;

/// Predicted times that differ by less are too close to call: most predictions are within a tenth of what is measured,
/// and of pairs of plans whose steps differ by more than a tenth nearly all are ranked correctly (docs/simulation.md).
constexpr double kPredictionError = 0.1;

/// Fewer steps are too few for a firm result: of ten steps, the 10th and the 90th percentile are close to the second
/// smallest and the second largest time.
constexpr int64_t kFewSteps = 20;

/// A repeated measurement takes this many times the steps, or the runs, to cover more of the other work on the machine.
constexpr int64_t kMoreSteps = 4;

/// The time by which rows are ranked: seconds of a step, or of an epoch.
struct RowPace {
  double median = 0;
  /// 10th and 90th percentile, widened to the medians of all runs of the row; equal to `median` where the time is
  /// modelled or simulated, and for replicas that ran once.
  double low = 0, high = 0;
};

/// The fastest of the rows of one clock.
struct Verdict {
  bool measured = true;    ///< false: simulated, without intervals, with the error of predictions
  bool by_epochs = false;  ///< of replicas, which make steps of their own, and of rows whose global batches differ
  /// The fastest row first, then the rows that are too close to it to call, from fast to slow. Empty: no row has a time
  /// that can be compared.
  std::vector<const RunResult*> fastest;
  const RunResult* next = nullptr;    ///< the fastest of the other rows; null if there is none
  const RunResult* single = nullptr;  ///< the row of one device, if it has a time that can be compared

  /// Not set for rows that are not ok and for rows with more workers than cores, whose times cannot be compared.
  std::optional<RowPace> pace(const RunResult& row) const;
};

/// `rows` have the same clock. `measured`: false if they were simulated.
Verdict verdict_of(const std::vector<const RunResult*>& rows, bool measured = true);

/// Returns true if the overlap of both intervals is wide. A time without an interval must lie in the other's interval,
/// or be equal to it.
bool overlap_widely(const RowPace& a, const RowPace& b);

/// Returns true if it cannot be told which of both is faster. `measured`: false if one of them was simulated.
bool too_close(const RowPace& a, const RowPace& b, bool measured);

/// "Fastest: data on 2 devices, 6.72 ms per step": the beginning of the first of sentences_of(). Empty if there is
/// none.
std::string headline_of(const Verdict& verdict, const std::string& clock);

/// What a verdict says beside times, as clauses without an end.
struct VerdictClauses {
  std::vector<std::string> results;  ///< "first at a test accuracy of 98.0 %: data on 2 devices, after 1.61 s"
  std::vector<std::string> doubts;   ///< as of doubts()
};

/// Returns at most two sentences: which row is the fastest, by how much, and `more.results`; then how sure that is and
/// what would change it. At most one advice to measure again. `clock`: as of clock_of(). Empty if there is nothing to
/// say.
std::vector<std::string> sentences_of(const Verdict& verdict, const std::string& clock,
                                      const VerdictClauses& more = {});

/// Returns clauses about what disturbed measurements from outside the plans: steps that scatter, cores that were not
/// equally fast, and predictions that are far off. Considers rows in real time; empty for simulated results.
std::vector<std::string> doubts(const ExperimentResult& result);

/// Returns the sentence about one row that says what `doubts` (as of doubts()) there are and what to do. Empty if there
/// are none.
std::string sentence_of_doubts(const std::vector<std::string>& doubts);

/// " by the modelled clock"; empty for the real one. `clock`: as of clock_of().
std::string by_clock(const std::string& clock);

}  // namespace trireme
