#include "study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"
#include "study/quantities.h"
#include "trireme/config.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChartKinds[] = {"lines", "points", "progress"};
constexpr StudySize kSizes[] = {StudySize::quick, StudySize::usual, StudySize::full};

std::vector<int> whole_numbers(const ConfigTable& table, const char* key) {
  std::vector<int> numbers;
  for (const int64_t number : table.get_ints(key, {})) {
    if (number < 1 || number > INT32_MAX) table.fail(key, "must be whole numbers of at least 1", "");
    numbers.push_back(int(number));
  }
  return numbers;
}

void check_file(const ConfigTable& table, const char* key, const fs::path& file) {
  if (!fs::is_regular_file(file))
    table.fail(key, fmt::format("there is no file {}", file.string()), "paths count from the study's folder");
}

/// The values that a key is tried with, as they are written in an assignment.
std::vector<std::string> read_values(const ConfigTable& table) {
  const std::string next = "write for example values = [0.01, 0.1]";
  if (!table.has("values")) table.fail("values", "is missing", next);
  const nlohmann::json all = table.to_json(), &values = all.at("values");
  if (!values.is_array() || values.size() < 2) table.fail("values", "needs a list of at least two values to try", next);
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const nlohmann::json& value : values) {
    const bool has_value = !value.is_number_float() || std::isfinite(value.get<double>());
    if (value.is_structured() || !has_value) table.fail("values", "must be numbers, strings, true or false", next);
    texts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return texts;
}

Tuning read_tuning(const ConfigTable& table) {
  return {table.require_string("key"), read_values(table), table.get_strings("set", {})};
}

std::vector<StudySize> read_sizes(const ConfigTable& table) {
  std::vector<StudySize> sizes;
  for (const std::string& name : table.get_strings("sizes", {})) {
    const auto* size =
        std::find_if(std::begin(kSizes), std::end(kSizes), [&](StudySize s) { return name == name_of(s); });
    if (size == std::end(kSizes))
      table.fail("sizes", fmt::format("\"{}\" is not a size", name), "the sizes are: quick, usual, full");
    sizes.push_back(*size);
  }
  if (table.has("sizes") && sizes.empty()) table.fail("sizes", "is an empty list", "leave the key out for all sizes");
  return sizes;
}

StudyRun read_run(const ConfigTable& table, const fs::path& folder) {
  StudyRun run;
  run.name = table.require_string("name");
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (run.name.empty() || run.name.find_first_not_of(kAllowed) != run.name.npos)
    table.fail("name", "names a folder", "use letters, digits, - and _");
  run.title = table.get_string("title", run.name);
  run.experiment = folder / table.require_string("experiment");
  check_file(table, "experiment", run.experiment);
  if (table.has("phase")) run.phase = int(table.get_int("phase", 1, 1));
  if (table.has("cluster")) {
    run.cluster = folder / table.require_string("cluster");
    check_file(table, "cluster", run.cluster);
  }
  run.batch_per_worker = table.get_int("batch_per_worker", 0, 0);
  run.set = table.get_strings("set", {});
  run.quick = table.get_strings("quick", {});
  run.full = table.get_strings("full", {});
  run.seeds = table.get_ints("seeds", {});
  for (const int64_t seed : run.seeds)
    if (seed < 0 || std::count(run.seeds.begin(), run.seeds.end(), seed) > 1)
      table.fail("seeds", "must be different whole numbers of at least 0", "");
  run.metric = table.get_string("metric", "");
  run.base = table.get_string("base", "");
  if (table.has("tune")) run.tuning = read_tuning(table.table("tune"));
  run.sizes = read_sizes(table);
  return run;
}

/// Checks that `name` is a quantity of rows.
void check_quantity(const ConfigTable& table, const char* key, const std::string& name) {
  const std::vector<std::string> known = quantity_names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string near = closest_match(name, known);
  table.fail(key, fmt::format("\"{}\" is not a quantity", name),
             near.empty() ? "known are: " + join(known) : fmt::format("did you mean \"{}\"?", near));
}

StudyChart read_chart(const ConfigTable& table) {
  StudyChart chart;
  const std::vector<std::string> kinds(std::begin(kChartKinds), std::end(kChartKinds));
  const std::string kind = table.get_choice("kind", kinds.front(), kinds);
  chart.kind = ChartKind(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
  if (chart.kind == ChartKind::progress) {
    chart.x = table.get_choice("x", "time", {"time", "epochs", "samples"});
    chart.y = table.get_choice("y", "result", {"result", "loss"});
    return chart;
  }
  chart.x = table.get_string("x", "devices");
  chart.y = table.require_string("y");
  check_quantity(table, "x", chart.x);
  check_quantity(table, "y", chart.y);
  return chart;
}

PublishedNumber read_published(const ConfigTable& table, const std::vector<std::string>& runs) {
  PublishedNumber published{table.get_string("run", ""), table.require_string("strategy"),
                            int(table.get_int("devices", 0, 0)), table.require_string("quantity"),
                            table.require_double("value")};
  check_quantity(table, "quantity", published.quantity);
  if (!published.run.empty() && std::find(runs.begin(), runs.end(), published.run) == runs.end())
    table.fail("run", "is not a run of this study", "the runs are: " + join(runs));
  return published;
}

/// The machines that the part names, from the study's table of prices.
std::vector<InstancePrice> prices_of_part(const ConfigTable& table, const std::vector<InstancePrice>& known) {
  std::vector<InstancePrice> prices;
  for (const std::string& name : table.get_strings("prices", {})) {
    const auto price = std::find_if(known.begin(), known.end(), [&](const InstancePrice& p) { return p.name == name; });
    if (std::any_of(prices.begin(), prices.end(), [&](const InstancePrice& p) { return p.name == name; }))
      table.fail("prices", fmt::format("\"{}\" is named twice", name), "leave one out");
    if (price != known.end()) prices.push_back(*price);
    else if (known.empty())
      table.fail("prices", "the study has no table of prices, or an empty one",
                 "set price_table = \"../clusters/prices.toml\" above the runs");
    else
      table.fail("prices", fmt::format("\"{}\" is not in the table of prices", name), "add it there, or leave it out");
  }
  return prices;
}

/// Checks that the part's prices are shown, and that nothing else in it shows other prices.
void check_prices(const ConfigTable& table, const StudyPart& part) {
  if (part.prices.empty()) return;
  const auto is_price = [](const std::string& name) { return !time_with_price(name).empty(); };
  if (std::none_of(part.table.begin(), part.table.end(), is_price))
    table.fail("prices", "the table shows no price", "add \"price of an epoch\" or \"price to target\" to table");
  const bool is_published = std::any_of(part.published.begin(), part.published.end(),
                                        [&](const PublishedNumber& p) { return is_price(p.quantity); });
  const bool is_drawn = std::any_of(part.charts.begin(), part.charts.end(),
                                    [&](const StudyChart& chart) { return is_price(chart.x) || is_price(chart.y); });
  if (is_published || is_drawn)
    table.fail("prices",
               "are of machines for rent, but the prices of charts and published numbers are the experiment's",
               "show those in another part");
}

StudyPart read_part(const ConfigTable& table, const std::vector<std::string>& runs,
                    const std::vector<InstancePrice>& prices) {
  StudyPart part;
  part.title = table.require_string("title");
  part.text = table.get_strings("text", {});
  part.runs = table.get_strings("runs", {});
  for (const std::string& run : part.runs)
    if (std::find(runs.begin(), runs.end(), run) == runs.end())
      table.fail("runs", fmt::format("\"{}\" is not a run of this study", run), "the runs are: " + join(runs));
  part.strategies = table.get_strings("strategies", {});
  part.devices = whole_numbers(table, "devices");
  part.together = table.get_bool("together", false);
  part.table = table.get_strings("table", {});
  for (const std::string& name : part.table) check_quantity(table, "table", name);
  part.sum = table.get_string("sum", "");
  if (!part.sum.empty()) check_quantity(table, "sum", part.sum);
  if (!part.sum.empty() && !part.together)
    table.fail("sum", "is over runs, and this part shows each of its own", "set together = true");
  part.prices = prices_of_part(table, prices);
  part.blocks = table.get_bool("blocks", false);
  for (const ConfigTable& chart : table.tables("charts")) part.charts.push_back(read_chart(chart));
  for (const ConfigTable& number : table.tables("published")) part.published.push_back(read_published(number, runs));
  part.advice = table.get_bool("advice", false);
  check_prices(table, part);
  for (const PublishedNumber& number : part.published)
    if (std::find(part.table.begin(), part.table.end(), number.quantity) == part.table.end())
      table.fail("table", fmt::format("lacks \"{}\", which has a published number", number.quantity), "add it");
  if (part.together && part.advice)
    table.fail("advice", "is of one run each, and this part shows its runs together", "make a part of its own for it");
  if (part.together && part.blocks)
    table.fail("blocks", "are of one run each, and this part shows its runs together",
               "make a part of its own for them");
  if (part.text.empty() && part.table.empty() && part.sum.empty() && part.charts.empty() && !part.blocks &&
      !part.advice)
    table.fail("title", "has nothing to show", "add text, table, sum, charts, blocks = true or advice = true");
  return part;
}

/// Checks the base of the study's last run. `names`: of the runs before it.
void check_base(const ConfigTable& table, const Study& study, const std::vector<std::string>& names) {
  const StudyRun& run = study.runs.back();
  if (run.base.empty()) return;
  const auto base = std::find(names.begin(), names.end(), run.base);
  if (base == names.end())
    table.fail("base", fmt::format("\"{}\" is not an earlier run of this study", run.base),
               names.empty() ? "leave the key out" : "the earlier runs are: " + join(names));
  for (const StudySize size : kSizes)
    if (run.is_of(size) && !study.runs[size_t(base - names.begin())].is_of(size))
      table.fail("base", fmt::format("\"{}\" is not trained in the {} size, and this run is", run.base, name_of(size)),
                 "give both the same sizes");
}

}  // namespace

std::string name_of_study(const fs::path& file) {
  std::string name = file.filename().string();
  for (const std::string_view ending : {std::string_view(kStudyFileEnding), std::string_view(".toml")})
    if (name.size() > ending.size() && name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return name;
}

const char* name_of(StudySize size) {
  return size == StudySize::quick ? "quick" : size == StudySize::full ? "full" : "usual";
}

bool StudyRun::is_of(StudySize size) const {
  return sizes.empty() || std::find(sizes.begin(), sizes.end(), size) != sizes.end();
}

std::vector<std::string> StudyRun::settings(StudySize size) const {
  std::vector<std::string> all = set;
  const std::vector<std::string>& more = size == StudySize::full ? full : quick;
  if (size != StudySize::usual) all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<int64_t> StudyRun::seeds_of(StudySize size) const {
  if (size != StudySize::quick || seeds.empty()) return seeds;
  return {seeds.front()};
}

Study read_study(const fs::path& file) {
  const ConfigTable table = ConfigTable::from_file(file);
  Study study{.name = name_of_study(file),
              .title = table.require_string("title"),
              .source = table.get_string("source", ""),
              .about = table.get_strings("about", {}),
              .runs = {},
              .parts = {}};
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::vector<InstancePrice> prices;
  if (table.has("price_table")) {
    const fs::path price_table = folder / table.require_string("price_table");
    check_file(table, "price_table", price_table);
    prices = read_prices(price_table);
  }
  for (const ConfigTable& run : table.tables("runs")) {
    study.runs.push_back(read_run(run, folder));
    check_base(run, study, names);
    if (std::find(names.begin(), names.end(), study.runs.back().name) != names.end())
      run.fail("name", "another run has it", "choose another name");
    names.push_back(study.runs.back().name);
  }
  for (const ConfigTable& part : table.tables("parts")) study.parts.push_back(read_part(part, names, prices));
  table.finish();
  if (study.runs.empty()) fail_user({file.string(), "has no runs", "nothing would be trained", "add [[runs]]"});
  if (study.parts.empty()) fail_user({file.string(), "has no parts", "nothing would be shown", "add [[parts]]"});
  return study;
}

bool shows_run(const StudyPart& part, const StudyRun& run) {
  return part.runs.empty() || std::find(part.runs.begin(), part.runs.end(), run.name) != part.runs.end();
}

void keep_size(Study& study, StudySize size, const fs::path& file) {
  std::erase_if(study.runs, [&](const StudyRun& run) { return !run.is_of(size); });
  if (study.runs.empty())
    fail_user({file.string(), fmt::format("has no run of the {} size", name_of(size)), "nothing would be trained",
               "choose another size, or add it to the sizes of a run"});
  std::erase_if(study.parts, [&](const StudyPart& part) {
    return std::none_of(study.runs.begin(), study.runs.end(),
                        [&](const StudyRun& run) { return shows_run(part, run); });
  });
}

}  // namespace trireme
