#include "cost/epochs_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json_file.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr double kMostSamples = 1e15;  // largest batch that is accepted
constexpr const char* kForms =
    "give a file written by trireme measure-epochs, or noise=2000, noise=2000,least=12 or 256:4,2048:4.5,8192:16";

json to_json(const EpochsMeasurement& m) {
  json j{{"batch", m.point.batch},
         {"reached", m.point.epochs.has_value()},
         {"epochs", m.trained},
         {"steps", m.steps},
         {"seconds", m.seconds},
         {"learning_rate", m.learning_rate},
         {"micro_batches", m.micro_batches}};
  j["noise_scale"] = m.noise_scale ? json(*m.noise_scale) : json(nullptr);
  if (!m.remark.empty()) j["remark"] = m.remark;
  return j;
}

EpochsMeasurement read_measurement(const json& j) {
  EpochsMeasurement m;
  m.point.batch = j.at("batch").get<int64_t>();
  m.trained = j.at("epochs").get<double>();
  if (j.value("reached", true)) m.point.epochs = m.trained;
  m.steps = j.value("steps", int64_t{0});
  m.seconds = j.value("seconds", 0.0);
  m.learning_rate = j.value("learning_rate", 0.0);
  m.micro_batches = j.value("micro_batches", 1);
  if (j.contains("noise_scale") && !j.at("noise_scale").is_null()) m.noise_scale = j.at("noise_scale").get<double>();
  m.remark = j.value("remark", "");
  return m;
}

std::vector<std::string> split(const std::string& text, char separator) {
  const std::vector<std::string_view> parts = cut(text, separator);
  return {parts.begin(), parts.end()};
}

double number_in(const std::string& item, const std::string& digits) {
  const std::optional<double> value = trireme::number_in<double>(digits);
  if (!value || !std::isfinite(*value))
    fail_user({"--epochs", item, fmt::format("\"{}\" is not a number", digits), kForms});
  return *value;
}

EpochsToTarget parse_noise(const std::vector<std::string>& items) {
  NoiseModel model;
  std::set<std::string> seen;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    if (equals == item.npos || (key != "noise" && key != "least"))
      fail_user({"--epochs", item, "is neither noise= nor least=", kForms});
    if (!seen.insert(key).second) fail_user({"--epochs", item, "is given twice", "give it once"});
    (key == "noise" ? model.noise_scale : model.least_epochs) = number_in(item, item.substr(equals + 1));
  }
  return EpochsToTarget::of(model);
}

EpochsToTarget parse_table(const std::vector<std::string>& items) {
  std::vector<EpochsPoint> points;
  for (const std::string& item : items) {
    const size_t colon = item.find(':');
    if (colon == item.npos)
      fail_user({"--epochs", item, "there is no such file, and it does not have the form batch:epochs", kForms});
    const double batch = number_in(item, item.substr(0, colon));
    if (batch != std::floor(batch) || batch < 1 || batch > kMostSamples)
      fail_user({"--epochs", item, "a batch is a whole number of samples, at least 1", kForms});
    if (std::any_of(points.begin(), points.end(), [&](const EpochsPoint& p) { return double(p.batch) == batch; }))
      fail_user({"--epochs", item, "the epochs of this batch are given twice", "give them once"});
    const std::string epochs = item.substr(colon + 1);
    points.push_back({int64_t(batch), epochs == "-" ? std::nullopt : std::optional(number_in(item, epochs))});
  }
  return EpochsToTarget::table(std::move(points), "assumed");
}

}  // namespace

EpochsToTarget EpochsFile::epochs() const {
  std::vector<EpochsPoint> points;
  for (const EpochsMeasurement& m : measurements) points.push_back(m.point);
  return EpochsToTarget::table(std::move(points), source);
}

EpochsFile read_epochs_file(const std::filesystem::path& path) {
  const json j = read_json_file(path);
  try {
    EpochsFile file;
    file.source = j.value("source", "assumed");
    file.settings = j.value("settings", json::object());
    for (const json& point : j.at("batches")) file.measurements.push_back(read_measurement(point));
    return file;
  } catch (const json::exception& e) {
    fail_user({path.string(), "has no epochs to a target", first_line(e), "see docs/end-to-end.md for the fields"});
  }
}

void write_epochs_file(const EpochsFile& file, const std::filesystem::path& path) {
  json batches = json::array();
  for (const EpochsMeasurement& m : file.measurements) batches.push_back(to_json(m));
  write_json_file(path, {{"source", file.source}, {"settings", file.settings}, {"batches", batches}});
}

EpochsToTarget parse_epochs(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(text, ignored) || text.ends_with(".json"))
    return read_epochs_file(text).epochs();
  const std::vector<std::string> items = split(text, ',');
  return text.find('=') != text.npos ? parse_noise(items) : parse_table(items);
}

}  // namespace trireme
