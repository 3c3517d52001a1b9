#include "plan/cluster_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_file.h"
#include "base/units.h"
#include "plan/cluster_file.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kLeastShare = 0.01;
constexpr double kMostSlowdown = 4;
// Times and half_work are rough values in most files, so a fit may change them by this factor.
constexpr double kTimeFactor = 100;
constexpr double kSlowerLink = 20, kFasterLink = 1.25;
constexpr int kDigits = 4, kAllDigits = 17;

bool ends(const std::string& key, std::string_view end) { return key.ends_with(end); }

/// True if the value is a string, in either kind of quotes.
bool is_quoted(const std::string& written) { return written.starts_with('"') || written.starts_with('\''); }

/// Reads what the file gives for a key: a number, or a string with a unit.
double value_of(const std::string& written, const std::string& key) {
  if (!is_quoted(written)) {
    std::string digits = written;
    std::erase(digits, '_');  // TOML allows them between digits
    return std::stod(digits);
  }
  const std::string text = written.substr(1, written.size() - 2);
  if (text.find("/s") != std::string::npos) return parse_bandwidth(text, key);
  return text.find("FLOP") == std::string::npos ? parse_seconds(text, key) : parse_flops(text, key);
}

}  // namespace

ClusterText::ClusterText(const std::filesystem::path& path) : path_(path), text_(read_file(path), path.string()) {
  read_cluster(path);  // its errors name lines and keys
  const ConfigTable file = ConfigTable::from_string(text_.text(), path.string());
  add_devices(file);
  add_links(file);
  add_overlap(file);
}

void ClusterText::add(const std::string& key, double least, double most, double usual) {
  const std::optional<std::string> written = text_.written(key);
  if (!written && usual == 0) return;
  const double value = written ? value_of(*written, key) : usual;
  if (!(value > 0)) return;
  // A value of the file may lie beyond the usual bounds.
  constants_.push_back({.key = key,
                        .value = value,
                        .least = std::min(least, value),
                        .most = std::max(most, value),
                        .is_in_file = written.has_value()});
}

void ClusterText::add_devices(const ConfigTable& file) {
  const auto add_scaled = [&](const std::string& key, double down, double up) {
    if (const std::optional<std::string> written = text_.written(key)) {
      const double value = value_of(*written, key);
      add(key, value / down, value * up);
    }
  };
  for (const std::string& name : file.table("device").keys()) {
    const std::string device = "device." + name + ".";
    const ConfigTable table = file.table("device").table(name);
    for (const char* key : {"greatest_efficiency", "half_work"}) {
      const std::string whole = device + key;
      std::vector<std::string> keys{whole};
      if (text_.written(whole) && text_.written(whole)->starts_with("{")) {
        keys.clear();
        for (const std::string& precision : table.table(key).keys())
          keys.push_back(fmt::format("{}.{}", whole, precision));
      }
      for (const std::string& one : keys) {
        if (ends(whole, "half_work")) add_scaled(one, kTimeFactor, kTimeFactor);
        else add(one, kLeastShare, 1);
      }
    }
    // A missing key cannot be added to a table that is written in one line.
    if (text_.written(device + "memory_efficiency") ||
        text_.has_room_below(device + "memory_bandwidth", "memory_efficiency"))
      add(device + "memory_efficiency", kLeastShare, 1, /*usual=*/1);
    for (const char* key : {"launch", "start"}) add_scaled(device + key, kTimeFactor, kTimeFactor);
    add(device + "fused_attention", kLeastShare, 1);
  }
}

void ClusterText::add_links(const ConfigTable& file) {
  std::vector<std::string> links;
  for (size_t i = 0; i < file.tables("node").size(); ++i) links.push_back(fmt::format("node[{}].link.", i));
  links.emplace_back("network.");
  for (const std::string& link : links) {
    const auto written = [&](const char* key) { return text_.written(link + key); };
    if (!written("bandwidth")) continue;
    const double bandwidth = value_of(*written("bandwidth"), link), latency = value_of(*written("latency"), link);
    add(link + "bandwidth", bandwidth / kSlowerLink, bandwidth * kFasterLink);
    add(link + "latency", latency / kTimeFactor, latency * kTimeFactor);
  }
}

void ClusterText::add_overlap(const ConfigTable& file) {
  for (const char* key : {"overlap.compute_slowdown", "overlap.transfer_slowdown"})
    if (file.has(key)) add(key, 1, kMostSlowdown);
}

std::string ClusterText::with_digits(size_t constant, double value, int digits) const {
  const ClusterConstant& known = constants_.at(constant);
  const std::string old = text_.written(known.key).value_or("1");
  if (!is_quoted(old)) return fmt::format("{:.{}g}", value, digits);
  const std::string text = old.substr(1, old.size() - 2);
  size_t number = 0;
  const double in_unit = std::stod(text, &number);
  const double unit = value_of(old, known.key) / in_unit;
  return fmt::format("\"{:.{}g}{}\"", value / unit, digits, text.substr(number));
}

void ClusterText::write(const ClusterConstant& constant, const std::string& value, TomlText& text) {
  if (text.written(constant.key)) return text.replace(constant.key, value);
  // Only memory_efficiency can be missing (it has a usual value). Its line is added below that of the bandwidth to
  // which it belongs.
  const size_t dot = constant.key.rfind('.');
  text.add_below(constant.key.substr(0, dot) + ".memory_bandwidth", constant.key.substr(dot + 1), value);
}

Cluster ClusterText::with(const std::vector<double>& values) const {
  check_internal(values.size() == constants_.size(), "each constant of a cluster file has a value");
  TomlText text = text_;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != constants_[i].value) write(constants_[i], with_digits(i, values[i], kAllDigits), text);
  return read_cluster_text(text.text(), path_);
}

std::string ClusterText::written(size_t constant, double value) const { return with_digits(constant, value, kDigits); }

double ClusterText::rounded(size_t constant, double value) const {
  return value_of(written(constant, value), constants_.at(constant).key);
}

void ClusterText::set(size_t constant, double value, const std::string& origin) {
  ClusterConstant& known = constants_.at(constant);
  const std::string text = written(constant, value), before = text_.written(known.key).value_or("not given");
  write(known, text, text_);
  text_.comment(known.key, fmt::format("calibrated {}:", known.key), fmt::format("{}, was {}", origin, before));
  known.value = value_of(text, known.key);
  known.is_in_file = true;
}

void ClusterText::move_to(const std::filesystem::path& file) {
  const std::optional<std::string> table = text_.written("price.table");
  if (!table) return;
  const ConfigTable read = ConfigTable::from_string(text_.text(), path_.string());
  const std::filesystem::path prices = path_.parent_path() / read.require_string("price.table");
  const auto folder = [](const std::filesystem::path& of) {
    return std::filesystem::absolute(of).lexically_normal().parent_path();
  };
  if (folder(file) == folder(path_)) return;
  const std::filesystem::path absolute = std::filesystem::absolute(prices).lexically_normal();
  text_.replace("price.table", toml_string(absolute.lexically_relative(folder(file)).string()));
}

}  // namespace trireme
