#include "forecast/own_times_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/text.h"
#include "base/text_parts.h"
#include "base/units.h"
#include "data/tables/csv.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kColumns =
    "layer (or stage), samples, tensor, forward, backward (or backward_input and backward_weight)";

class TimesReader {
 public:
  explicit TimesReader(const std::filesystem::path& file)
      : table_(read_csv(file, {.trim = true, .comment = "#"})), times_{.file = file, .rows = {}} {
    for (int64_t i = 0; i < table_.columns(); ++i) columns_[table_.names()[size_t(i)]] = i;
    check_columns();
  }

  OwnTimes read() {
    times_.of_stages = has("stage");
    std::map<std::tuple<std::string, int, int64_t, int>, std::string> known;
    for (int64_t row = 0; row < table_.rows(); ++row) {
      OwnTime time = read_row(row);
      const auto [it, fresh] =
          known.emplace(std::tuple(time.layers, time.stage, time.samples, time.tensor), time.where);
      if (!fresh)
        fail_user({time.where, times_.of_stages ? fmt::format("stage {}", time.stage) : time.layers,
                   fmt::format("{} has its time for as many samples and the same tensor degree", it->second),
                   "give it once"});
      times_.rows.push_back(std::move(time));
    }
    return std::move(times_);
  }

 private:
  bool has(const char* column) const { return columns_.count(column) > 0; }

  void check_columns() const {
    const std::vector<std::string> known{"layer",   "stage",    "samples",        "tensor",
                                         "forward", "backward", "backward_input", "backward_weight"};
    const auto fail = [&](std::string what, std::string why) {
      fail_user({fmt::format("{}:1", table_.file()), std::move(what), std::move(why),
                 fmt::format("the columns are {}", kColumns)});
    };
    for (const auto& [name, index] : columns_)
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail(fmt::format("column \"{}\"", name), "there is no such column");
    for (const char* needed : {"samples", "forward"})
      if (!has(needed)) fail(fmt::format("column \"{}\"", needed), "is missing");
    if (has("layer") == has("stage")) fail("columns \"layer\" and \"stage\"", "one of them names what a row is of");
    const bool parts = has("backward_input") && has("backward_weight");
    const bool any_part = has("backward_input") || has("backward_weight");
    if (has("backward") == any_part || any_part != parts)
      fail("the backward", "is one column, or its two parts are two");
  }

  OwnTime read_row(int64_t row) const {
    OwnTime time;
    time.where = table_.position(row, columns_.at(times_.of_stages ? "stage" : "layer"));
    if (times_.of_stages) time.stage = int(whole(row, "stage", 0));
    else time.layers = std::string(field(row, "layer"));
    if (!times_.of_stages && time.layers.empty())
      fail_user({time.where, "", "the name of a layer or block is missing", "write its name"});
    time.samples = whole(row, "samples", 1);
    if (has("tensor")) time.tensor = int(whole(row, "tensor", 1));
    time.forward = seconds(row, "forward");
    if (has("backward")) {
      time.backward = seconds(row, "backward");
    } else {
      time.backward_weight = seconds(row, "backward_weight");
      time.backward = seconds(row, "backward_input") + *time.backward_weight;
    }
    return time;
  }

  std::string_view field(int64_t row, const char* column) const { return table_.field(row, columns_.at(column)); }

  int64_t whole(int64_t row, const char* column, int64_t least) const {
    const std::string_view text = field(row, column);
    const auto value = number_in<int64_t>(text);
    if (!value || *value < least || *value > std::numeric_limits<int>::max())
      fail_user({table_.position(row, columns_.at(column)), fmt::format("{} \"{}\"", column, text),
                 fmt::format("must be a whole number from {} on", least), "correct it"});
    return *value;
  }

  double seconds(int64_t row, const char* column) const {
    const std::string_view text = field(row, column);
    const std::string where = table_.position(row, columns_.at(column));
    const auto plain = number_in<double>(text);
    const double value = plain ? *plain : parse_seconds(text, where);
    if (!(value >= 0 && std::isfinite(value)))
      fail_user({where, fmt::format("{} \"{}\"", column, text), "a time is at least 0", "correct it"});
    return value;
  }

  CsvTable table_;
  OwnTimes times_;
  std::map<std::string, int64_t> columns_;
};

}  // namespace

OwnTimes read_own_times(const std::filesystem::path& file) { return TimesReader(file).read(); }

}  // namespace trireme
