#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/counted.h"
#include "base/seconds.h"
#include "base/units.h"
#include "report/width.h"

namespace trireme {
namespace {

constexpr int kDefaultColumns = 80;
constexpr int kMinBar = 8, kMaxBar = 30;
constexpr int kLeastNameColumns = 12;
constexpr std::chrono::milliseconds kTick{500};

void write_to(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(file, text.data(), text.size());
    if (n <= 0) return;  // the reader is gone; progress output must not stop training
    text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string draw_bar(double share, int columns) {
  int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += i < full ? "━" : "┄";
  return bar;
}

std::string numbers_of(const StepReport& report, bool reported) {
  if (!reported) return "starting";
  std::string text = fmt::format("loss {:.4f}", report.point.loss);
  if (report.samples_per_second > 0) text += fmt::format("  {} samples/s", format_count(report.samples_per_second));
  if (report.seconds_left > 0) text += fmt::format("  {} left", format_seconds(report.seconds_left));
  return text;
}

std::string finished_line(const std::string& name, int name_columns, const RunResult& result) {
  if (result.status != RunStatus::ok)
    return fmt::format("{}  {}{}", pad_to(name, name_columns), name_of(result.status),
                       result.reason.empty() ? "" : ": " + result.reason);
  std::string text = pad_to(name, name_columns) + "  done";
  if (result.step_seconds) text += fmt::format("  {}/step", format_seconds(result.step_seconds->median));
  if (result.samples_per_second) text += fmt::format("  {} samples/s", format_count(*result.samples_per_second));
  const auto add = [&](const Metric& metric) {
    constexpr int kDecimals = 2;
    text += fmt::format("  test {} {}", kind_of_metric(metric.name).title, metric_text(metric, kDecimals));
  };
  if (result.test && result.test->main()) add(*result.test->main());
  for (const Metric& metric : result.final_metrics) add(metric);
  return text;
}

ProgressOptions progress_on(int file) {
  const char* term = std::getenv("TERM");
  ProgressOptions options;
  options.file = file;
  options.terminal = ::isatty(file) && term && std::string_view(term) != "dumb";
  return options;
}

}  // namespace

ProgressOptions standard_output_progress() { return progress_on(STDOUT_FILENO); }
ProgressOptions standard_error_progress() { return progress_on(STDERR_FILENO); }

Progress::Progress(ProgressOptions options) : options_(std::move(options)), name_columns_(kLeastNameColumns) {
  if (!options_.write) options_.write = [file = options_.file](std::string_view text) { write_to(file, text); };
  if (!options_.now) options_.now = steady_seconds;
}

Progress::~Progress() {
  if (options_.terminal && !running_.empty()) redraw("", true);
}

int Progress::columns() const {
  if (options_.width > 0) return options_.width;
  winsize size{};
  if (::ioctl(options_.file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultColumns;
}

Progress::Bar& Progress::find(const std::string& name) {
  auto it = std::find_if(running_.begin(), running_.end(), [&](const Bar& b) { return b.name == name; });
  if (it != running_.end()) return *it;
  name_columns_ = std::max(name_columns_, columns_of(name));
  running_.push_back({.name = name, .total = 0, .report = {}, .reported = false, .last_log = options_.now()});
  return running_.back();
}

void Progress::begin(const std::string& name, int64_t total) {
  MutexLock lock(mutex_);
  find(name).total = total;
  if (options_.terminal) redraw("", true);
  else
    options_.write(total > 0 ? fmt::format("{}: starts, {}\n", name, counted(total, "step"))
                             : fmt::format("{}: starts\n", name));
}

void Progress::update(const std::string& name, const StepReport& report) {
  MutexLock lock(mutex_);
  Bar& bar = find(name);
  bool first = !bar.reported;
  bar.report = report;
  bar.reported = true;
  if (report.total_steps > 0) bar.total = report.total_steps;
  if (options_.terminal) return redraw("", first);
  double now = options_.now();
  if (!first && now - bar.last_log < options_.log_seconds) return;
  bar.last_log = now;
  const std::string of = bar.total > 0 ? fmt::format("/{}", bar.total) : "";
  options_.write(fmt::format("{}: step {}{}  {}\n", name, report.point.step, of, numbers_of(report, true)));
}

void Progress::end(const std::string& name, const RunResult& result) {
  MutexLock lock(mutex_);
  std::erase_if(running_, [&](const Bar& b) { return b.name == name; });
  std::string line = finished_line(name, name_columns_, result);
  if (options_.terminal) redraw(wrap_lines(line, columns() - 1), true);
  else options_.write(line + "\n");
}

void Progress::say(std::string_view line) {
  MutexLock lock(mutex_);
  if (options_.terminal) redraw(wrap_lines(line, columns() - 1), true);
  else options_.write(std::string(line) + "\n");
}

bool Progress::shows_phase() const { return phase_ && options_.now() - phase_->began >= options_.quiet_seconds; }

void Progress::begin_phase(std::string name) {
  MutexLock lock(mutex_);
  phase_ = PhaseLine{.name = std::move(name), .began = options_.now()};
}

void Progress::tick() {
  MutexLock lock(mutex_);
  if (!shows_phase()) return;
  if (options_.terminal) return redraw("", true);
  if (!std::exchange(phase_->logged, true)) options_.write(phase_->name + " ...\n");
}

void Progress::end_phase() {
  MutexLock lock(mutex_);
  phase_.reset();
  if (options_.terminal && drawn_ > 0) redraw("", true);
}

void Progress::redraw(std::string_view above, bool force) {
  double now = options_.now();
  if (!force && now - last_draw_ < options_.redraw_seconds) return;
  last_draw_ = now;
  // One write, so that the terminal never shows an incomplete state. Lines stay one column short of the edge, because
  // some terminals wrap a line that fills it.
  std::string out;
  if (drawn_ > 0) out += fmt::format("\x1b[{}A", drawn_);
  out += "\r\x1b[J";
  if (!above.empty()) out += std::string(above) + "\n";
  int width = columns() - 1;
  for (const Bar& bar : running_) {
    std::string head = pad_to(bar.name, name_columns_) + "  ";
    std::string tail = bar.total > 0 ? fmt::format("  {}/{}  ", bar.report.point.step, bar.total)
                                     : fmt::format("  {}  ", bar.report.point.step);
    tail += numbers_of(bar.report, bar.reported);
    int room = std::min(width - columns_of(head) - columns_of(tail), kMaxBar);
    double share = bar.total > 0 ? static_cast<double>(bar.report.point.step) / static_cast<double>(bar.total) : 0;
    std::string line = room >= kMinBar ? head + draw_bar(share, room) + tail : head + tail.substr(2);
    out += cut_to(line, width) + "\n";
  }
  drawn_ = static_cast<int>(running_.size());
  if (shows_phase()) {
    const double seconds = std::floor(now - phase_->began);
    out += cut_to(fmt::format("{} ...  {:.0f} s", phase_->name, seconds), width) + "\n";
    ++drawn_;
  }
  options_.write(out);
}

ShownPhase::ShownPhase(Progress& progress, std::string name) : progress_(progress) {
  progress_.begin_phase(std::move(name));
  ticker_ = std::thread([this] { tick_until_ended(); });
}

ShownPhase::~ShownPhase() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  ticker_.join();
  progress_.end_phase();
}

void ShownPhase::tick_until_ended() {
  MutexLock lock(mutex_);
  while (!ended_) {
    changed_.wait_for(mutex_, kTick);
    if (!ended_) progress_.tick();
  }
}

}  // namespace trireme
