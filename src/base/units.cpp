#include "base/units.h"
#include "trireme/config.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;
constexpr Unit kByteUnits[] = {{"B", 1},     {"kB", 1e3},  {"MB", 1e6},  {"GB", 1e9}, {"TB", 1e12},
                               {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}};
constexpr Unit kBandwidthUnits[] = {{"bit/s", 0.125},  {"kbit/s", 125}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6},
                                    {"Tbit/s", 125e9}, {"B/s", 1},      {"kB/s", 1e3},     {"MB/s", 1e6},
                                    {"GB/s", 1e9},     {"TB/s", 1e12},  {"KiB/s", kKi},    {"MiB/s", kMi},
                                    {"GiB/s", kGi},    {"TiB/s", kTi}};
constexpr Unit kWorkUnits[] = {{"FLOP", 1},    {"kFLOP", 1e3},  {"MFLOP", 1e6},
                               {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
constexpr Unit kWorkRateUnits[] = {{"FLOP/s", 1},    {"kFLOP/s", 1e3},  {"MFLOP/s", 1e6},
                                   {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit kTimeUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3},
                               {"s", 1},     {"min", 60},  {"h", 3600}};
constexpr Unit kLengthUnits[] = {{"steps", 1}, {"step", 1}, {"epochs", 1}, {"epoch", 1}};

/// What a key accepts, for messages: "an amount of memory", an example and its units.
struct Expected {
  std::string_view quantity;
  std::string_view example;
  std::span<const Unit> units;
};

constexpr Expected kBytes{"an amount of memory", "2 GiB", kByteUnits};
constexpr Expected kBandwidth{"a bandwidth", "25 Gbit/s", kBandwidthUnits};
constexpr Expected kWork{"an amount of work", "2 GFLOP", kWorkUnits};
constexpr Expected kWorkRate{"a computing speed", "15.7 TFLOP/s", kWorkRateUnits};
constexpr Expected kTime{"a time", "0.5 ms", kTimeUnits};
constexpr Expected kLength{"a length of training", "10 epochs", kLengthUnits};

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

/// "ns, us, ms"
std::string names_of(const Expected& expected) {
  std::string units;
  for (const Unit& unit : expected.units) units += (units.empty() ? "" : ", ") + std::string(unit.name);
  return units;
}

[[noreturn]] void fail(std::string_view key, std::string_view text, const Expected& expected, std::string why) {
  fail_user({.where = std::string(key),
             .what = fmt::format("\"{}\" is not {}", text, expected.quantity),
             .why = std::move(why),
             .next = fmt::format("write it like \"{}\" (units: {})", expected.example, names_of(expected))});
}

/// Names what the number may have meant.
[[noreturn]] void fail_without_unit(std::string_view key, std::string_view number, const Expected& expected) {
  const std::string_view usual = expected.example.substr(expected.example.find(' ') + 1);
  const bool is_length = expected.units.data() == kLengthUnits;
  fail_user({.where = std::string(key),
             .what = fmt::format("\"{}\" is not {}", number, expected.quantity),
             .why = "the unit is missing",
             .next = is_length
                         ? fmt::format("write \"{0} steps\" or \"{0} epochs\"", number)
                         : fmt::format("write for example \"{} {}\" (units: {})", number, usual, names_of(expected))});
}

struct Quantity {
  double number;
  Unit unit;
};

/// Splits "2 GiB" into its number, which is finite and not negative, and its unit, one of `expected.units`.
Quantity parse(std::string_view text, std::string_view key, const Expected& expected) {
  std::string_view rest = trim(text);
  double number = 0;
  auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (status == std::errc::result_out_of_range) fail(key, text, expected, "the number is out of range");
  if (status != std::errc() || !std::isfinite(number)) fail(key, text, expected, "it does not start with a number");
  if (number < 0) fail(key, text, expected, "it is negative");
  rest = trim(rest.substr(size_t(end - rest.data())));
  if (rest.empty()) fail_without_unit(key, trim(text), expected);
  for (const Unit& unit : expected.units)
    if (unit.name == rest) return {number, unit};
  fail(key, text, expected, fmt::format("\"{}\" is not one of its units", rest));
}

double amount(std::string_view text, std::string_view key, const Expected& expected) {
  const Quantity q = parse(text, key, expected);
  return q.number * q.unit.factor;
}

/// Three significant digits of a number in [0, 10000), without an exponent.
std::string three_digits(double value) {
  double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/// Picks the largest unit that leaves a number of at least 1 after rounding to three digits.
std::string in_units(double value, std::span<const Unit> units, double step) {
  size_t i = 0;
  while (i + 1 < units.size() && std::abs(value) / units[i].factor >= step - 0.5) ++i;
  return three_digits(value / units[i].factor) + (units[i].name.empty() ? "" : " ") + std::string(units[i].name);
}

}  // namespace

int64_t parse_bytes(std::string_view text, std::string_view key) {
  const double bytes = amount(text, key, kBytes);
  if (bytes >= double(std::numeric_limits<int64_t>::max())) fail(key, text, kBytes, "it is more than 2^63 bytes");
  return std::llround(bytes);
}

double parse_bandwidth(std::string_view text, std::string_view key) { return amount(text, key, kBandwidth); }

double parse_flops(std::string_view text, std::string_view key) { return amount(text, key, kWork); }

double parse_flop_rate(std::string_view text, std::string_view key) { return amount(text, key, kWorkRate); }

double parse_seconds(std::string_view text, std::string_view key) { return amount(text, key, kTime); }

Length parse_length(std::string_view text, std::string_view key) {
  Quantity q = parse(text, key, kLength);
  Length length{q.number, q.unit.name.starts_with("step") ? Length::Unit::steps : Length::Unit::epochs};
  if (length.count == 0) fail(key, text, kLength, "it must be more than zero");
  if (length.unit == Length::Unit::steps && length.count != std::floor(length.count))
    fail(key, text, kLength, "a number of steps is a whole number");
  return length;
}

std::string format_bytes(int64_t bytes) {
  static constexpr Unit kUnits[] = {{"B", 1}, {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}};
  if (std::abs(double(bytes)) < kKi) return fmt::format("{} B", bytes);
  return in_units(double(bytes), kUnits, kKi);
}

std::string format_seconds(double seconds) {
  static constexpr Unit kUnits[] = {{"ns", 1e-9}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0) return fmt::format("-{}", format_seconds(-seconds));
  if (seconds < 59.95) return in_units(seconds, kUnits, 1e3);
  int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  int64_t minutes = std::llround(seconds / 60);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string format_count(double value) {
  static constexpr Unit kUnits[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (std::abs(value) < 999.5 && value == std::floor(value)) return fmt::format("{:.0f}", value);
  return in_units(value, kUnits, 1e3);
}

}  // namespace trireme
