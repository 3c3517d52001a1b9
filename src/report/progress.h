// Shows the progress of the strategies: on a terminal (one line each, redrawn in place) or in a log (a plain line from
// time to time).
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
  int width = 0;          ///< columns; 0: the terminal's width at every redraw, or 80 if it is unknown
  double redraw_seconds = 0.1;
  double log_seconds = 5;                       ///< per strategy, between plain lines
  std::function<void(std::string_view)> write;  ///< writes the text; empty: standard output
  std::function<double()> now;                  ///< seconds, monotonic; empty: the steady clock
};

/// Options for standard output: a terminal unless it is redirected or TERM is "dumb".
ProgressOptions standard_output_progress();

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

  /// Writes a line of text above the bars ("downloading ...").
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
  int name_columns_ TRIREME_GUARDED_BY(mutex_);  ///< width of the widest name so far
  std::vector<Bar> running_ TRIREME_GUARDED_BY(mutex_);
  int drawn_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< lines on the screen that the next redraw replaces
  double last_draw_ TRIREME_GUARDED_BY(mutex_) = -1e9;
};

}  // namespace trireme
