#include "plan/cluster_constants.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/expect_error.h"
#include "plan/toml_text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = R"(name = "two nodes"   # a comment
description = "für den Test"

[device.V100]
flops = { fp32 = "15.7 TFLOP/s", bf16 = "125 TFLOP/s" }
# typical of cuBLAS
greatest_efficiency = { fp32 = 0.9, bf16 = 0.6 }   # behind it
half_work = "0.25 GFLOP"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
launch = "8 us"
start = "0 us"
source = "datasheet"

[[node]]
count = 2
device = "V100"
devices = 8
link = { bandwidth = "150 GB/s", latency = "5 us" }

[network]
bandwidth = "25 Gbit/s"
latency = "30 us"

[overlap]
compute_slowdown = 1.1
)";

class ClusterConstants : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("trireme-constants-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    write(kFile);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text) { std::ofstream(file()) << text; }
  fs::path file() const { return folder_ / "c.cluster.toml"; }

  fs::path folder_;
};

size_t index_of(const ClusterText& text, const std::string& key) {
  for (size_t i = 0; i < text.constants().size(); ++i)
    if (text.constants()[i].key == key) return i;
  throw std::runtime_error("there is no " + key);
}

std::vector<double> values_of(const ClusterText& text) {
  std::vector<double> values;
  for (const ClusterConstant& constant : text.constants()) values.push_back(constant.value);
  return values;
}

TEST_F(ClusterConstants, AreThoseOfTheFile) {
  const ClusterText text(file());
  std::vector<std::string> keys;
  for (const ClusterConstant& constant : text.constants()) {
    keys.push_back(constant.key);
    EXPECT_LE(constant.least, constant.value) << constant.key;
    EXPECT_GE(constant.most, constant.value) << constant.key;
  }
  // `start` is 0, so it has no logarithm.
  EXPECT_THAT(keys,
              ::testing::ElementsAre("device.V100.greatest_efficiency.bf16", "device.V100.greatest_efficiency.fp32",
                                     "device.V100.half_work", "device.V100.memory_efficiency", "device.V100.launch",
                                     "node[0].link.bandwidth", "node[0].link.latency", "network.bandwidth",
                                     "network.latency", "overlap.compute_slowdown"));
  const auto at = [&](const std::string& key) { return text.constants()[index_of(text, key)]; };
  EXPECT_DOUBLE_EQ(at("device.V100.half_work").value, 0.25e9);
  EXPECT_DOUBLE_EQ(at("network.bandwidth").value, 25e9 / 8);
  EXPECT_DOUBLE_EQ(at("device.V100.launch").value, 8e-6);
  EXPECT_EQ(at("device.V100.memory_efficiency").value, 1);
  EXPECT_FALSE(at("device.V100.memory_efficiency").is_in_file);
  EXPECT_EQ(at("device.V100.greatest_efficiency.fp32").most, 1);
}

TEST_F(ClusterConstants, WithOtherValuesTheClusterHasThem) {
  const ClusterText text(file());
  std::vector<double> values = values_of(text);
  values[index_of(text, "device.V100.greatest_efficiency.bf16")] = 1.0 / 3;
  values[index_of(text, "device.V100.memory_efficiency")] = 0.123456789;
  values[index_of(text, "node[0].link.bandwidth")] = 98765432101;
  values[index_of(text, "network.latency")] = 12.3456e-6;
  values[index_of(text, "overlap.compute_slowdown")] = 1.25;
  const Cluster cluster = text.with(values);
  EXPECT_DOUBLE_EQ(cluster.kinds[0].speeds.at("bf16").greatest_efficiency, 1.0 / 3);
  EXPECT_DOUBLE_EQ(cluster.kinds[0].speeds.at("fp32").greatest_efficiency, 0.9);
  EXPECT_DOUBLE_EQ(cluster.kinds[0].memory_efficiency, 0.123456789);
  for (const ClusterNode& node : cluster.nodes) EXPECT_DOUBLE_EQ(node.link.bandwidth, 98765432101);
  EXPECT_DOUBLE_EQ(cluster.network.latency, 12.3456e-6);
  EXPECT_DOUBLE_EQ(cluster.network.bandwidth, 25e9 / 8);
  EXPECT_EQ(cluster.compute_slowdown, 1.25);
  EXPECT_EQ(text.text(), kFile);
}

TEST_F(ClusterConstants, OnlyWhatIsSetChangesInTheText) {
  ClusterText text(file());
  text.set(index_of(text, "device.V100.greatest_efficiency.bf16"), 0.512345, "trireme calibrate, 3 rows of r.toml");
  text.set(index_of(text, "device.V100.memory_efficiency"), 0.75, "by hand");
  text.set(index_of(text, "network.bandwidth"), 2e9, "by hand");
  std::string expected = kFile;
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = expected.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    expected.replace(at, from.size(), to);
  };
  replace("greatest_efficiency = { fp32 = 0.9, bf16 = 0.6 }",
          "# calibrated device.V100.greatest_efficiency.bf16: trireme calibrate, 3 rows of r.toml, was 0.6\n"
          "greatest_efficiency = { fp32 = 0.9, bf16 = 0.5123 }");
  replace("memory_bandwidth = \"900 GB/s\"\n",
          "memory_bandwidth = \"900 GB/s\"\n# calibrated device.V100.memory_efficiency: by hand, was not given\n"
          "memory_efficiency = 0.75\n");
  replace("bandwidth = \"25 Gbit/s\"",
          "# calibrated network.bandwidth: by hand, was \"25 Gbit/s\"\nbandwidth = \"16 Gbit/s\"");
  EXPECT_EQ(text.text(), expected);
  // Another calibration replaces the comment of the first.
  text.set(index_of(text, "network.bandwidth"), 1e9, "again");
  replace("by hand, was \"25 Gbit/s\"\nbandwidth = \"16 Gbit/s\"",
          "again, was \"16 Gbit/s\"\nbandwidth = \"8 Gbit/s\"");
  EXPECT_EQ(text.text(), expected);
}

TEST_F(ClusterConstants, RoundedIsWhatTheFileWillSay) {
  const ClusterText text(file());
  const size_t launch = index_of(text, "device.V100.launch");
  EXPECT_EQ(text.written(launch, 12.34567e-6), "\"12.35 us\"");
  EXPECT_DOUBLE_EQ(text.rounded(launch, 12.34567e-6), 12.35e-6);
}

TEST_F(ClusterConstants, AFileInAnotherFolderFindsThePrices) {
  std::ofstream(folder_ / "prices.toml") << "currency = \"USD\"\ndate = \"2024-01\"\n[[instance]]\nname = \"p\"\n"
                                            "provider = \"a\"\nper_hour = 2\nsource = \"list\"\n";
  std::string priced = kFile;
  priced.replace(priced.find("devices = 8"), 11, "devices = 8\ninstance = \"p\"");
  write(priced + "[price]\ntable = \"prices.toml\"\n");
  ClusterText text(file());
  fs::create_directories(folder_ / "below");
  const fs::path moved = folder_ / "below" / "d.cluster.toml";
  text.move_to(moved);
  std::ofstream(moved) << text.text();
  EXPECT_EQ(read_cluster(moved).nodes.front().price_per_hour, 2);
  ClusterText beside(file());
  beside.move_to(folder_ / "other.cluster.toml");
  EXPECT_EQ(beside.text(), priced + "[price]\ntable = \"prices.toml\"\n");
}

TEST(TomlText, RefusesToAddToATableOfOneLine) {
  TomlText text("device = { a = 1, b = 2 }\n", "c.toml");
  expect_error(Blame::user, {"c.toml", "device.c = 3", "one line"}, [&] { text.add_below("device.b", "c", "3"); });
  EXPECT_EQ(text.text(), "device = { a = 1, b = 2 }\n");
}

TEST(TomlText, FindsValuesBehindLettersOfSeveralBytes) {
  TomlText text("a = { \"größe\" = 'ü', b = [1, 2] } # c\n[[n]]\n  x = 1.5e3 \n[[n]]\nx=2\n", "t.toml");
  EXPECT_EQ(text.written("a.b"), "[1, 2]");
  EXPECT_EQ(text.written("n[0].x"), "1.5e3");
  EXPECT_EQ(text.written("n[2].x"), std::nullopt);
  text.replace("a.b", "7");
  text.replace("n[1].x", "3");
  text.comment("n[0].x", "mark", "why");
  EXPECT_EQ(text.text(), "a = { \"größe\" = 'ü', b = 7 } # c\n[[n]]\n  # mark why\n  x = 1.5e3 \n[[n]]\nx=3\n");
}

}  // namespace
}  // namespace trireme
