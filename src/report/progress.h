// Shows the progress of the strategies: on a terminal (one line each, redrawn in place) or in a log (a plain line from
// time to time).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "train/observer.h"

namespace trireme {

struct ProgressOptions {
  bool terminal = false;  ///< redraw lines with ANSI sequences
  int file = 1;           ///< descriptor that is written to: standard output, or 2
  int width = 0;          ///< columns; 0: the terminal's width at every redraw, or 80 if it is unknown
  double redraw_seconds = 0.1;
  double log_seconds = 5;                       ///< per strategy, between plain lines
  double quiet_seconds = 2;                     ///< a phase that lasts longer gets a line
  std::function<void(std::string_view)> write;  ///< writes the text; empty: to `file`
  std::function<double()> now;                  ///< seconds, monotonic; empty: the steady clock
};

/// Options for standard output: a terminal unless it is redirected or TERM is "dumb".
ProgressOptions standard_output_progress();
/// The same for standard error: for commands whose standard output is a result that programs read.
ProgressOptions standard_error_progress();

/// Thread-safe. Running strategies are at the bottom of the output; each finished strategy has one line above.
class Progress {
 public:
  explicit Progress(ProgressOptions options = standard_output_progress());
  ~Progress();  ///< leaves the cursor below the drawn lines

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `total` steps; 0: unknown.
  void begin(const std::string& name, int64_t total);
  void update(const std::string& name, const StepReport& report);
  void end(const std::string& name, const RunResult& result);

  /// A phase without steps, such as reading data: class ShownPhase calls these. After `quiet_seconds` a terminal shows
  /// a line with the seconds so far until the phase ends, and a log gets one plain line. tick() draws or writes it. A
  /// new phase ends the one before.
  void begin_phase(std::string name);
  void tick();
  void end_phase();

  /// Writes a line of text above the bars ("downloading ..."). A terminal that is narrower gets several lines.
  void say(std::string_view line);

 private:
  struct Bar {
    std::string name;
    int64_t total = 0;
    StepReport report;
    bool reported = false;
    double last_log = 0;
  };

  struct PhaseLine {
    std::string name;
    double began = 0;
    bool logged = false;
  };

  Bar& find(const std::string& name) TRIREME_REQUIRES(mutex_);
  bool shows_phase() const TRIREME_REQUIRES(mutex_);
  void redraw(std::string_view above, bool force) TRIREME_REQUIRES(mutex_);
  int columns() const;

  ProgressOptions options_;
  Mutex mutex_;
  int name_columns_ TRIREME_GUARDED_BY(mutex_);  ///< width of the widest name so far
  std::vector<Bar> running_ TRIREME_GUARDED_BY(mutex_);
  std::optional<PhaseLine> phase_ TRIREME_GUARDED_BY(mutex_);
  int drawn_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< lines on the screen that the next redraw replaces
  double last_draw_ TRIREME_GUARDED_BY(mutex_) = -1e9;
};

/// A phase of a Progress from construction to destruction. A thread of its own draws it.
class ShownPhase {
 public:
  ShownPhase(Progress& progress, std::string name);
  ~ShownPhase();
  ShownPhase(const ShownPhase&) = delete;
  ShownPhase& operator=(const ShownPhase&) = delete;

 private:
  void tick_until_ended();

  Progress& progress_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool ended_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread ticker_;  ///< last: it reads the other members
};

/// Shows the steps of one run, and after its last step that it evaluates, which may take long.
class ShownSteps {
 public:
  ShownSteps(Progress& progress, std::string name) : progress_(progress), name_(std::move(name)) {}
  void update(const StepReport& report) {
    progress_.update(name_, report);
    if (report.total_steps > 0 && report.point.step >= report.total_steps && !evaluating_)
      evaluating_.emplace(progress_, name_ + ": evaluating after the last step");
  }

 private:
  Progress& progress_;
  const std::string name_;
  std::optional<ShownPhase> evaluating_;
};

/// Returns what `work` returns; a line shows the phase if it lasts. `progress`: null: no line.
template <typename Work>
auto in_phase(Progress* progress, std::string name, const Work& work) {
  std::optional<ShownPhase> phase;
  if (progress) phase.emplace(*progress, std::move(name));
  return work();
}

}  // namespace trireme
