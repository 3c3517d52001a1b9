// How far the strategies are, on a terminal (one line each, redrawn in place) or in a log (a plain line now and then).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "train/observer.h"

namespace trireme {

struct ProgressOptions {
  bool terminal = false;  ///< redraw lines with ANSI sequences
  int width = 0;          ///< columns; 0: asked of the terminal at every redraw, 80 where it does not say
  double redraw_seconds = 0.1;
  double log_seconds = 5;                       ///< per strategy, between plain lines
  std::function<void(std::string_view)> write;  ///< where text goes; empty: standard output
  std::function<double()> now;                  ///< seconds, monotonic; empty: the steady clock
};

/// Options for standard output: a terminal unless it is redirected or TERM is "dumb".
ProgressOptions standard_output_progress();

/// Thread-safe. Running strategies stay at the bottom of the output; finished ones stay above as one line each.
class Progress {
 public:
  explicit Progress(ProgressOptions options = standard_output_progress());
  ~Progress();  ///< leaves the cursor below what was drawn

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `total` steps; 0: not known yet.
  void begin(const std::string& name, int64_t total);
  void update(const std::string& name, const StepReport& report);
  void end(const std::string& name, const RunResult& result);

  /// A line of text above the bars ("downloading ...").
  void say(std::string_view line);

 private:
  struct Bar {
    std::string name;
    int64_t total = 0;
    StepReport report;
    bool reported = false;
    double last_log = 0;
  };

  Bar& find(const std::string& name) TRIREME_REQUIRES(mutex_);
  void redraw(std::string_view above, bool force) TRIREME_REQUIRES(mutex_);
  int columns() const;

  ProgressOptions options_;
  Mutex mutex_;
  int name_columns_ TRIREME_GUARDED_BY(mutex_);  ///< the widest name so far
  std::vector<Bar> running_ TRIREME_GUARDED_BY(mutex_);
  int drawn_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< lines on the screen that the next redraw replaces
  double last_draw_ TRIREME_GUARDED_BY(mutex_) = -1e9;
};

}  // namespace trireme
