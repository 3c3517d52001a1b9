#include "plan/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "base/text_parts.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kMaxDegree = 1'000'000;  // so that no product of degrees overflows
const std::vector<std::string> kDegrees{"data", "tensor", "pipeline"};
const std::vector<std::string> kKeys{
    "data",          "tensor",   "pipeline",  "micro_batches",           "schedule",
    "chunks",        "sharding", "recompute", "recompute_communication", "compression",
    "vertical_sync", "speeds",   "split",     "scatter_messages",        "sharding_group"};

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// One key=value of a strategy.
class Item {
 public:
  Item(std::string_view text, const std::string& where) : text_(text), where_(where) {
    const size_t equals = text.find('=');
    key = text.substr(0, equals);
    if (equals != text.npos) value = text.substr(equals + 1);
  }

  [[noreturn]] void fail(std::string why, std::string next) const {
    fail_user({where_, fmt::format("\"{}\"", text_), std::move(why), std::move(next)});
  }

  int count(int least = 1) const {
    const auto number = number_in<int>(value);
    if (!number || *number < least || *number > kMaxDegree)
      fail(fmt::format("must be a whole number of at least {}, and at most {}", least, kMaxDegree),
           fmt::format("for example {}=2", key));
    return *number;
  }

  bool yes_or_no() const {
    if (value != "0" && value != "1") fail("must be 0 or 1", fmt::format("write {}=1", key));
    return value == "1";
  }

  size_t choice(const std::vector<std::string>& names, std::string_view word) const {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found != names.end()) return size_t(found - names.begin());
    const std::string near = closest_match(word, names);
    fail(fmt::format("is not a known value of {}", key),
         near.empty() ? fmt::format("known: {}", join(names)) : fmt::format("did you mean {}={}?", key, near));
  }
  size_t choice(const std::vector<std::string>& names) const { return choice(names, value); }

  std::string_view key, value;

 private:
  std::string_view text_;
  const std::string& where_;
};

/// Reads "bf16", "bf16-stored", "powersgd", "powersgd:2".
Compression read_compression(const Item& item) {
  using enum Compression::Kind;
  const auto parts = cut(item.value, ':');
  const std::vector kinds{none, bf16, bf16_stored, powersgd};
  std::vector<std::string> names;
  names.reserve(kinds.size());
  for (const Compression::Kind kind : kinds) names.emplace_back(name_of(kind));
  Compression compression{.kind = kinds[item.choice(names, parts[0])]};
  if (parts.size() == 1) return compression;
  const auto rank = number_in<int>(parts[1]);
  if (compression.kind != powersgd || parts.size() > 2 || !rank || *rank < 1)
    item.fail("only powersgd has a rank, a whole number of at least 1", "for example compression=powersgd:2");
  compression.rank = *rank;
  return compression;
}

std::vector<double> read_speeds(const Item& item) {
  std::vector<double> speeds;
  for (std::string_view part : cut(item.value, ':')) {
    const auto speed = number_in<double>(part);
    if (!speed || !std::isfinite(*speed) || *speed <= 0)
      item.fail("must be positive numbers, one per device", "for example speeds=2:1");
    speeds.push_back(*speed);
  }
  return speeds;
}

std::vector<std::string> sharding_names() {
  std::vector<std::string> names;
  for (const OptimizerSharding sharding : kOptimizerShardings) names.emplace_back(name_of(sharding));
  return names;
}

void set(const Item& item, Strategy& s) {
  if (item.key == "data") s.data = item.count();
  else if (item.key == "tensor") s.tensor = item.count();
  else if (item.key == "pipeline") s.pipeline = item.count();
  else if (item.key == "micro_batches") s.micro_batches = item.count();
  else if (item.key == "chunks") s.chunks = item.count();
  else if (item.key == "schedule") s.schedule = schedule_names()[item.choice(schedule_names())];
  else if (item.key == "sharding") s.sharding = kOptimizerShardings[item.choice(sharding_names())];
  else if (item.key == "recompute") {
    using enum Strategy::Recompute;
    s.recompute =
        std::vector{none, all, except_last, selective}[item.choice({"none", "all", "except_last", "selective"})];
  } else if (item.key == "recompute_communication") s.recompute_communication = item.yes_or_no();
  else if (item.key == "compression") s.compression = read_compression(item);
  else if (item.key == "sharding_group") s.sharding_group = item.count(2);
  else if (item.key == "scatter_messages") s.scatter_messages = item.yes_or_no();
  else if (item.key == "vertical_sync") s.vertical_sync = item.yes_or_no();
  else if (item.key == "speeds") s.speeds = read_speeds(item);
  else if (item.key == "split")
    s.split = std::vector<std::string>{"height", "sequence"}[item.choice({"height", "sequence"})];
}

[[noreturn]] void fail_name(std::string_view name, const std::string& where) {
  auto known = known_strategies();
  for (std::string& planned : planned_strategies()) known.push_back(std::move(planned));
  const std::string near = closest_match(name, known);
  fail_user({where, fmt::format("\"{}\"", name), "is neither a known strategy nor a degree",
             near.empty() ? fmt::format("known: {}", strategy_syntax()) : fmt::format("did you mean \"{}\"?", near)});
}

/// Throws a user error if the item sets what the strategy's name already determines.
void require_free(const Item& item, const NamedStrategy& named) {
  if (contains(kDegrees, item.key))
    item.fail(fmt::format("{} already determines the degree of each axis", named.name),
              "spell out all degrees, for example data=2,tensor=2");
  const bool decided = (item.key == "schedule" && named.schedule) ||
                       (item.key == "sharding" && named.sharding != OptimizerSharding::none);
  if (decided)
    item.fail(fmt::format("{} already determines the {}", named.name, item.key), "leave it out or choose another name");
}

}  // namespace

std::optional<int> Strategy::devices() const {
  if (!name.empty()) return std::nullopt;
  const int64_t product = int64_t(data.value_or(1)) * tensor.value_or(1) * pipeline.value_or(1);
  return int(std::min<int64_t>(product, kMaxDegree));
}

Strategy parse_strategy(std::string_view text, const std::string& where) {
  Strategy strategy;
  const NamedStrategy* named = nullptr;
  std::set<std::string_view> seen;
  for (std::string_view part : cut(text, ',')) {
    const Item item(part, where);
    if (is_planned(strategy.name))
      item.fail(fmt::format("{} is found by a planner, which also determines this key", strategy.name), "leave it out");
    if (part.data() == text.data() && is_planned(part)) {
      strategy.name = part;
      continue;
    }
    if (part.find('=') == part.npos && part.data() == text.data()) {
      named = look_up_strategy(part);
      if (!named) fail_name(part, where);
      strategy.name = part;
      continue;
    }
    if (!contains(kKeys, item.key)) {
      const std::string near = closest_match(item.key, kKeys);
      item.fail("is neither a degree nor another key of a strategy",
                near.empty() ? fmt::format("keys are {}", join(kKeys)) : fmt::format("did you mean \"{}\"?", near));
    }
    if (!seen.insert(item.key).second) item.fail(fmt::format("{} is given twice", item.key), "give each key once");
    if (named) require_free(item, *named);
    set(item, strategy);
  }
  return strategy;
}

std::vector<std::string> join_strategies(const std::vector<std::string>& items,
                                         const std::function<bool(const std::string&)>& takes_any_key) {
  std::vector<std::string> joined;
  std::set<std::string> degrees;  // degrees of the last strategy in `joined`
  bool spelled_out = false;       // true if that strategy begins with a key
  for (const std::string& item : items) {
    const std::string key = item.substr(0, item.find('='));
    const bool is_key = item.find('=') != item.npos, is_degree = contains(kDegrees, key);
    const bool own = !joined.empty() && takes_any_key && takes_any_key(joined.back());
    const bool goes_on = !joined.empty() && is_key &&
                         (own || (is_degree ? spelled_out && !degrees.contains(key) : contains(kKeys, key)));
    if (goes_on) {
      joined.back() += "," + item;
    } else {
      joined.push_back(item);
      degrees.clear();
      spelled_out = is_key;
    }
    if (is_degree) degrees.insert(key);
  }
  return joined;
}

std::string strategy_syntax() {
  std::vector<std::string> planned = planned_strategies();
  for (std::string& name : planned)
    if (!strategy_note(name).empty()) name += " (a reconstruction)";
  return fmt::format(
      "{}, or degrees, \"data=2,tensor=2,pipeline=1\"; both may be followed by keys, each after a comma: schedule={}, "
      "chunks=2, micro_batches=4, sharding=zero1, sharding_group=8, recompute=all|except_last|selective, "
      "recompute_communication=1, compression=bf16|bf16-stored|powersgd:2, "
      "vertical_sync=1, scatter_messages=1, speeds=2:1, split=height|sequence; or planned: {}",
      join(known_strategies()), lean_schedule().name, join(planned));
}

}  // namespace trireme
