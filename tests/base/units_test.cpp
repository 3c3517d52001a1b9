#include "base/units.h"
#include "trireme/config.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace trireme {
namespace {

TEST(Units, ParsesBytes) {
  EXPECT_EQ(parse_bytes("512 B", "k"), 512);
  EXPECT_EQ(parse_bytes("2 GiB", "k"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("2GB", "k"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("  1.5 KiB ", "k"), 1536);
  EXPECT_EQ(parse_bytes("0 B", "k"), 0);
  EXPECT_EQ(parse_bytes("1 TiB", "k"), int64_t{1} << 40);
}

TEST(Units, ParsesBandwidthInBitsAndBytes) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("25 Gbit/s", "k"), 25e9 / 8);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1 GB/s", "k"), 1e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("200 MiB/s", "k"), 200.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(parse_bandwidth("8 bit/s", "k"), 1);
}

TEST(Units, ParsesSeconds) {
  EXPECT_DOUBLE_EQ(parse_seconds("0.5 ms", "k"), 0.5e-3);
  EXPECT_DOUBLE_EQ(parse_seconds("3 min", "k"), 180);
  EXPECT_DOUBLE_EQ(parse_seconds("2h", "k"), 7200);
  EXPECT_DOUBLE_EQ(parse_seconds("7 ns", "k"), 7e-9);
  EXPECT_DOUBLE_EQ(parse_seconds("7 us", "k"), 7e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("7 µs", "k"), 7e-6);
}

TEST(Units, ParsesWorkAndSpeed) {
  EXPECT_DOUBLE_EQ(parse_flops("2 GFLOP", "k"), 2e9);
  EXPECT_DOUBLE_EQ(parse_flops("3 FLOP", "k"), 3);
  EXPECT_DOUBLE_EQ(parse_flop_rate("15.7 TFLOP/s", "k"), 15.7e12);
  EXPECT_DOUBLE_EQ(parse_flop_rate("1PFLOP/s", "k"), 1e15);
  expect_error(Blame::user,
               {"device.V100.flops", "\"15.7 TFLOP\"", "\"TFLOP\" is not one of its units", "15.7 TFLOP/s"},
               [] { parse_flop_rate("15.7 TFLOP", "device.V100.flops"); });
  expect_error(Blame::user, {"\"GFLOP/s\" is not one of its units"}, [] { parse_flops("1 GFLOP/s", "k"); });
}

TEST(Units, ParsesLengths) {
  EXPECT_EQ(parse_length("10 epochs", "k").count, 10);
  EXPECT_EQ(parse_length("10 epochs", "k").unit, Length::Unit::epochs);
  EXPECT_EQ(parse_length("0.5 epochs", "k").count, 0.5);
  EXPECT_EQ(parse_length("1 epoch", "k").unit, Length::Unit::epochs);
  EXPECT_EQ(parse_length("500 steps", "k").count, 500);
  EXPECT_EQ(parse_length("1 step", "k").unit, Length::Unit::steps);
}

TEST(Units, ErrorsNameKeyTextReasonAndUnits) {
  expect_error(Blame::user, {"device_memory", "\"2 GiBs\"", "GiB", "units: B, kB", "\"GiBs\" is not one of its units"},
               [] { parse_bytes("2 GiBs", "device_memory"); });
  expect_error(Blame::user, {"k", "\"2\"", "the unit is missing", "\"2 GiB\""}, [] { parse_bytes("2", "k"); });
  expect_error(Blame::user, {"\"4\"", "write \"4 steps\" or \"4 epochs\""}, [] { parse_length("4", "k"); });
  expect_error(Blame::user, {"does not start with a number"}, [] { parse_bytes("GiB", "k"); });
  expect_error(Blame::user, {"does not start with a number"}, [] { parse_bytes("", "k"); });
  expect_error(Blame::user, {"negative"}, [] { parse_bytes("-1 GiB", "k"); });
  expect_error(Blame::user, {"2^63"}, [] { parse_bytes("9e9 TiB", "k"); });
  expect_error(Blame::user, {"does not start with a number"}, [] { parse_seconds("nan s", "k"); });
  expect_error(Blame::user, {"does not start with a number"}, [] { parse_seconds("inf s", "k"); });
  expect_error(Blame::user, {"out of range"}, [] { parse_seconds("1e999 s", "k"); });
  expect_error(Blame::user, {"\"S\" is not one of its units"}, [] { parse_seconds("1 S", "k"); });
  expect_error(Blame::user, {"Gbit/s"}, [] { parse_bandwidth("25 Gbit", "link"); });
  expect_error(Blame::user, {"whole number"}, [] { parse_length("1.5 steps", "k"); });
  expect_error(Blame::user, {"more than zero"}, [] { parse_length("0 epochs", "k"); });
  expect_error(Blame::user, {"epochs"}, [] { parse_length("3 years", "k"); });
}

TEST(Units, FormatsBytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(int64_t(1.5 * (1 << 30))), "1.50 GiB");
  EXPECT_EQ(format_bytes(int64_t{120} << 20), "120 MiB");
  EXPECT_EQ(format_bytes((int64_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
}

TEST(Units, FormatsSeconds) {
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(4.56), "4.56 s");
  EXPECT_EQ(format_seconds(200), "3 min 20 s");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
  EXPECT_EQ(format_seconds(59.99), "1 min 0 s");
  EXPECT_EQ(format_seconds(3599.9), "1 h 0 min");
  EXPECT_EQ(format_seconds(2e-6), "2.00 µs");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(-0.001), "-1.00 ms");
}

TEST(Units, FormatsCounts) {
  EXPECT_EQ(format_count(12), "12");
  EXPECT_EQ(format_count(0.5), "0.50");
  EXPECT_EQ(format_count(1234), "1.23 k");
  EXPECT_EQ(format_count(11'200'000), "11.2 M");
  EXPECT_EQ(format_count(999'999), "1.00 M");
}

TEST(Units, FormattedQuantitiesParseBackToThreeDigits) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0, 12), small(-8, 1.7);
  for (int i = 0; i < 1000; ++i) {
    const double bytes = std::floor(std::pow(10, exponent(random)));
    EXPECT_NEAR(double(parse_bytes(format_bytes(int64_t(bytes)), "k")), bytes, 0.0051 * bytes) << bytes;
    const double seconds = std::pow(10, small(random));
    EXPECT_NEAR(parse_seconds(format_seconds(seconds), "k"), seconds, 0.0051 * seconds) << seconds;
  }
}

}  // namespace
}  // namespace trireme
