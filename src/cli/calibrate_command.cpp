#include "cli/calibrate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/text.h"
#include "cli/calibration_report.h"
#include "cli/calibration_rows.h"
#include "cli/options.h"
#include "cost/calibration/calibrate.h"
#include "plan/cluster_constants.h"
#include "report/progress.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Indices = std::vector<size_t>;

/// True if `part` is the key, or one or several of its dotted parts: "launch" in "device.V100.launch".
bool has_part(const std::string& key, const std::string& part) {
  return ("." + key + ".").find("." + part + ".") != std::string::npos;
}

/// Returns the constants that --fit names; all constants without --fit.
Indices asked_constants(const CalibrateOptions& options, const ClusterText& cluster) {
  Indices found;
  std::vector<std::string> keys;
  for (size_t i = 0; i < cluster.constants().size(); ++i) {
    const std::string& key = cluster.constants()[i].key;
    keys.push_back(key);
    const auto is_in = [&](const std::string& part) { return has_part(key, part); };
    if (options.fit.empty() || std::any_of(options.fit.begin(), options.fit.end(), is_in)) found.push_back(i);
  }
  for (const std::string& part : options.fit)
    if (std::none_of(keys.begin(), keys.end(), [&](const std::string& key) { return has_part(key, part); }))
      fail_user({"--fit", part, fmt::format("{} has no such constant", cluster.path().string()),
                 "choose among " + join(keys)});
  return found;
}

/// The rows that are only predicted. Errors (user): an unknown name; nothing is left to fit.
std::set<std::string> held_rows(const CalibrateOptions& options, const RowsFile& file) {
  std::vector<std::string> names;
  for (const MeasuredRow& row : file.rows) names.push_back(row.name);
  std::set<std::string> held(options.hold.begin(), options.hold.end());
  for (const std::string& name : held) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = closest_match(name, names);
    fail_user({"--hold", name, fmt::format("{} has no such row", options.rows.string()),
               near.empty() ? "its rows are " + join(names) : fmt::format("did you mean \"{}\"?", near)});
  }
  if (held.size() == names.size())
    fail_user({"--hold", join(options.hold), "no row is left to fit", "leave one of them out"});
  return held;
}

/// The rows on a cluster whose constants change.
class Rows {
 public:
  Rows(const CalibrateOptions& options, const RowsFile& file, const ClusterText& cluster, Indices asked,
       Progress& progress)
      : cluster_(cluster), asked_(std::move(asked)) {
    RowReading reading{.cluster = options.cluster, .data_dir = options.data_dir, .trust = options.trust, .told = {}};
    for (const ClusterConstant& constant : cluster.constants()) first_.push_back(constant.value);
    const Cluster first = cluster.with(first_);
    for (const MeasuredRow& row : file.rows)
      rows_.push_back(std::make_unique<PredictedRow>(row, first, reading, progress));
  }

  const PredictedRow& operator[](size_t row) const { return *rows_[row]; }

  /// Returns the values of all constants of the file, with `asked` in place of those of the constants to fit.
  std::vector<double> all_values(const std::vector<double>& asked) const {
    std::vector<double> all = first_;
    for (size_t i = 0; i < asked_.size(); ++i) all[asked_[i]] = asked[i];
    return all;
  }
  /// Results are cached: a fit requests the same values several times, and a simulation takes long.
  double seconds(size_t row, const std::vector<double>& asked) {
    std::optional<double>& known = known_.try_emplace(asked, rows_.size()).first->second[row];
    if (known) return *known;
    if (asked != of_ || !changed_) {
      changed_ = cluster_.with(all_values(asked));
      of_ = asked;
    }
    known = rows_[row]->seconds(*changed_);
    return *known;
  }

 private:
  const ClusterText& cluster_;
  const Indices asked_;  ///< constants that may change
  std::vector<double> first_;
  std::vector<std::unique_ptr<PredictedRow>> rows_;
  std::vector<double> of_;  ///< the values of `changed_`
  std::optional<Cluster> changed_;
  std::map<std::vector<double>, std::vector<std::optional<double>>> known_;  ///< by the values asked for, and by row
};

/// Fits the rows with these indices. The returned values are rounded as the file will state them.
CalibrationFit fit_of(const std::vector<FreeConstant>& free, const Indices& asked, const Indices& fitted,
                      const RowsFile& file, const ClusterText& cluster, bool all, Rows& rows) {
  std::vector<double> measured;
  for (const size_t row : fitted) measured.push_back(file.rows[row].seconds);
  const auto seconds = [&](size_t row, const std::vector<double>& values) { return rows.seconds(fitted[row], values); };
  CalibrationFit fit = calibrate(free, measured, seconds, {.all = all});
  for (const FittedConstant& one : fit.fitted) {
    double& value = fit.values[one.constant];
    value = cluster.rounded(asked[one.constant], value);
  }
  return fit;
}

/// Fits the rows that --hold does not name, and predicts all rows.
CalibrationReport calibrated(const CalibrateOptions& options, const RowsFile& file, const ClusterText& cluster,
                             Progress& progress) {
  const Indices asked = asked_constants(options, cluster);
  const std::set<std::string> held = held_rows(options, file);
  Rows rows(options, file, cluster, asked, progress);
  std::vector<FreeConstant> free;
  std::vector<double> first;
  for (const size_t i : asked) {
    const ClusterConstant& constant = cluster.constants()[i];
    free.push_back({constant.key, constant.value, constant.least, constant.most});
    first.push_back(constant.value);
  }
  Indices fitted;
  for (size_t row = 0; row < file.rows.size(); ++row)
    if (!held.contains(file.rows[row].name)) fitted.push_back(row);
  CalibrationReport report{
      .cluster = cluster.path().string(), .rows_file = options.rows.string(), .rows = {}, .constants = {}, .fit = {}};
  report.fit = in_phase(&progress, fmt::format("fitting {}", counted(int64_t(fitted.size()), "row")),
                        [&] { return fit_of(free, asked, fitted, file, cluster, !options.fit.empty(), rows); });
  for (size_t i = 0; i < asked.size(); ++i)
    report.constants.push_back({.key = free[i].name,
                                .before = cluster.written(asked[i], free[i].value),
                                .after = cluster.written(asked[i], report.fit.values[i]),
                                .value_before = free[i].value,
                                .value_after = report.fit.values[i]});
  const Cluster after = cluster.with(rows.all_values(report.fit.values));
  for (size_t row = 0; row < file.rows.size(); ++row)
    report.rows.push_back({.name = file.rows[row].name,
                           .plan = rows[row].job().strategy,
                           .devices = rows[row].job().devices,
                           .measured = file.rows[row].seconds,
                           .before = rows.seconds(row, first),
                           .after = rows[row].seconds_of_own_plan(after),
                           .left_out = std::nullopt,
                           .is_held = held.contains(file.rows[row].name)});
  for (size_t i = 0; i < report.fit.left_out.size(); ++i) report.rows[fitted[i]].left_out = report.fit.left_out[i];
  return report;
}

/// Writes the fitted values into the cluster's text.
void set_values(const CalibrationReport& report, const RowsFile& file, ClusterText& cluster) {
  const auto rows = std::count_if(report.rows.begin(), report.rows.end(), [](const auto& row) { return !row.is_held; });
  std::string origin = fmt::format("trireme calibrate, {} of {}", counted(rows, "row"),
                                   std::filesystem::path(report.rows_file).filename().string());
  if (!file.source.empty()) origin += fmt::format(" ({})", join(lines_of(file.source), " "));
  for (const FittedConstant& one : report.fit.fitted) {
    const std::string& key = report.constants[one.constant].key;
    const auto& known = cluster.constants();
    const auto place = std::find_if(known.begin(), known.end(), [&](const auto& c) { return c.key == key; });
    cluster.set(size_t(place - known.begin()), report.fit.values[one.constant], origin);
  }
}

/// The lines of a text that another does not have.
std::string new_lines(const std::string& text, const std::string& old) {
  std::multiset<std::string> known;
  for (const std::string& line : lines_of(old)) known.insert(line);
  std::string changed;
  for (const std::string& line : lines_of(text)) {
    // A line of the old text accounts for one equal line only, because devices may have equal lines.
    const auto found = known.find(line);
    if (found == known.end()) changed += line + "\n";
    else known.erase(found);
  }
  return changed;
}

}  // namespace

void add_calibrate(CLI::App& app, CalibrateOptions& o) {
  auto* verb = app.add_subcommand("calibrate", "fit the constants of a cluster file to measured steps");
  verb->add_option("cluster", o.cluster, "cluster file (*.cluster.toml)")->required();
  verb->add_option("--rows", o.rows,
                   "file of measured steps (TOML): [[row]] with experiment, plan, devices and seconds "
                   "(docs/clusters.md)")
      ->required();
  verb->add_option("--fit", o.fit,
                   "constants to fit: keys of the cluster file or parts of them, launch,network.bandwidth (default: "
                   "those that the rows determine)")
      ->delimiter(',');
  verb->add_option("--hold", o.hold, "name of a row that is predicted but not fitted; may be given several times")
      ->allow_extra_args(false);
  verb->add_option("--out", o.out, "calibrated cluster file to write (default: none, its new lines are printed)");
  verb->add_option("--json", o.json, "also write the rows and constants to this file");
  verb->add_option("--data-dir", o.data_dir, "folder with the data sets of the experiments");
  verb->add_flag("--trust", o.trust, "allow the code of a TorchScript model to run (model = \"own.pt\")");
}

int run_calibrate(const CalibrateOptions& options) {
  check_target("--out", options.out);
  check_target("--json", options.json);
  ClusterText cluster(options.cluster);
  const std::string old = cluster.text();
  const RowsFile file = read_rows(options.rows);
  Progress progress(standard_error_progress());
  const CalibrationReport report = calibrated(options, file, cluster, progress);
  std::cout << calibration_text(report);
  if (!options.json.empty()) write_json_file(options.json, calibration_json(report));
  if (report.fit.fitted.empty())
    fail_user({options.rows.string(), counted(int64_t(report.rows.size()), "row"),
               "they determine no constant of the cluster file", "see why above, and add rows that depend on one"});
  set_values(report, file, cluster);
  if (options.out.empty()) {
    std::cout << fmt::format("\nnew lines of {} (--out FILE writes a file with them):\n{}", options.cluster.string(),
                             new_lines(cluster.text(), old));
    return 0;
  }
  cluster.move_to(options.out);
  write_file_atomically(options.out, cluster.text());
  std::cout << fmt::format("\nwritten to {}\n", options.out.string());
  return 0;
}

}  // namespace trireme
