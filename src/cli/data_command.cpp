#include "cli/data_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "base/text.h"
#include "base/units.h"
#include "data/catalogue.h"
#include "data/open.h"
#include "data/search_folders.h"
#include "report/width.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBarWidth = 30;
constexpr int kPlainStepPercent = 25;  // plain output: one line per this many percent

/// Prints the progress of one file after another.
class ProgressPrinter {
 public:
  ProgressPrinter(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}
  ~ProgressPrinter() { end_bar(); }

  void operator()(const DownloadProgress& p) {
    if (p.file != file_ || (p.url != url_ && !p.done)) start(p);
    if (p.done) {
      if (terminal_ && !p.url.empty()) bar(p);
      end_bar();
      out_ << fmt::format("{}: {}\n", p.file, p.url.empty() ? "already here" : "complete, checksum correct")
           << std::flush;
    } else if (terminal_) {
      bar(p);
    } else {
      plain(p);
    }
  }

 private:
  void start(const DownloadProgress& p) {
    end_bar();
    file_ = p.file;
    url_ = p.url;
    began_ = Clock::now();
    began_at_ = p.received;
    next_percent_ = kPlainStepPercent;
    if (p.done) return;
    std::string kept = p.received > 0 ? fmt::format(", {} are here already", format_bytes(p.received)) : "";
    out_ << fmt::format("{} ({}{}) from {}\n", p.file, format_bytes(p.total), kept, p.url) << std::flush;
  }

  static int64_t percent(const DownloadProgress& p) { return p.total > 0 ? 100 * p.received / p.total : 100; }

  void bar(const DownloadProgress& p) {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    const double rate = seconds > 0 ? static_cast<double>(p.received - began_at_) / seconds : 0;
    const auto filled = static_cast<size_t>(percent(p) * kBarWidth / 100);
    std::string left =
        rate > 0 ? ", " + format_seconds(static_cast<double>(p.total - p.received) / rate) + " left" : "";
    // \x1b[K clears the rest of a longer earlier line.
    out_ << fmt::format("\r[{}{}] {:3} %  {} of {}  {}/s{}\x1b[K", std::string(filled, '#'),
                        std::string(kBarWidth - filled, ' '), percent(p), format_bytes(p.received),
                        format_bytes(p.total), format_bytes(std::max<int64_t>(0, static_cast<int64_t>(rate))), left)
         << std::flush;
    open_bar_ = true;
  }

  void plain(const DownloadProgress& p) {
    if (percent(p) < next_percent_) return;
    out_ << fmt::format("{}: {} %\n", p.file, percent(p)) << std::flush;
    next_percent_ = percent(p) / kPlainStepPercent * kPlainStepPercent + kPlainStepPercent;
  }

  void end_bar() {
    if (open_bar_) out_ << '\n';
    open_bar_ = false;
  }

  std::ostream& out_;
  bool terminal_;
  bool open_bar_ = false;
  std::string file_;
  std::string url_;
  Clock::time_point began_;
  int64_t began_at_ = 0;
  int64_t next_percent_ = 0;
};

std::vector<std::string> searched_names() {
  std::vector<std::string> names;
  for (const KnownSet& set : known_sets())
    if (set.origin == DataOrigin::searched) names.push_back(set.name);
  return names;
}

}  // namespace

int data_get(const std::string& name, const std::optional<std::filesystem::path>& data_dir, std::ostream& out) {
  const KnownSet* known = find_known_set(name);
  if (known && known->origin == DataOrigin::generated) {
    out << name << ": generated when needed, nothing to download\n";
    return 0;
  }
  if (!known || known->origin != DataOrigin::searched)
    fail_user({.where = "data set",
               .what = "\"" + name + "\"",
               .why = "no set of this name can be downloaded",
               .next = "choose one of " + join(searched_names())});
  const KnownSet& set = *known;
  ProgressPrinter printer(out, &out == &std::cout && isatty(STDOUT_FILENO) == 1);
  const auto folder =
      get_set(set, data_dir.value_or(cache_folder()), [&](const DownloadProgress& progress) { printer(progress); });
  out << fmt::format("{} is in {}\n", set.title, folder.string());
  return 0;
}

int data_list(std::ostream& out, const std::optional<std::filesystem::path>& data_dir) {
  struct Row {
    std::string name, description, state;
  };
  const auto searched = data_search_path(data_dir);
  std::vector<Row> rows;
  for (const KnownSet& set : known_sets()) {
    if (set.origin != DataOrigin::searched) continue;
    const auto folder = find_set(set, searched);
    rows.push_back({set.name, set.description,
                    folder                ? fmt::format("found in {}", folder->string())
                    : set.sources.empty() ? fmt::format("not found; {}", set.advice)
                                          : fmt::format("not found; trireme data get {} downloads {}", set.name,
                                                        format_bytes(set.download_bytes()))});
  }
  for (const KnownSet& set : known_sets())
    if (set.origin == DataOrigin::generated) rows.push_back({set.name, set.description, "always available"});
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  const int room = columns_of_output(STDOUT_FILENO) - int(width) - 2;
  const std::string below = "\n" + std::string(width + 2, ' ');
  for (const Row& row : rows)
    out << fmt::format("{:<{}}  {}{}{}\n", row.name, width, join(wrap(row.description, room), below), below,
                       join(wrap(row.state, room), below));
  std::string places = "searched:";
  for (const auto& folder : searched) places += " " + folder.string();
  out << wrap_lines(places + "\n", columns_of_output(STDOUT_FILENO));
  return 0;
}

}  // namespace trireme
