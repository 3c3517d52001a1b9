#include "plan/cluster_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/expect_error.h"
#include "plan/price_file.h"

namespace trireme {
namespace {

constexpr const char* kTwoNodes = R"(name = "two nodes"
description = "for the test"

[device.V100]
flops = { fp32 = "15.7 TFLOP/s", bf16 = "125 TFLOP/s" }
greatest_efficiency = { fp32 = 0.9, bf16 = 0.6 }
half_work = { fp32 = "0.25 GFLOP", bf16 = "2 GFLOP" }
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
launch = "8 us"
source = "datasheet"

[[node]]
count = 2
device = "V100"
devices = 8
link = { bandwidth = "150 GB/s", latency = "5 us" }
price_per_hour = 24.48

[network]
bandwidth = "25 Gbit/s"
latency = "30 us"

[overlap]
compute_slowdown = 1.1
transfer_slowdown = 1.2

[price]
date = "2023-06"
source = "a list"
)";

constexpr const char* kMixed = R"(name = "mixed"
overlaps = false
[device.GPU]
flops = { fp32 = "10 TFLOP/s" }
greatest_efficiency = 0.8
half_work = "1 GFLOP"
memory = "8 GB"
memory_bandwidth = "400 GB/s"
launch = "10 us"
source = "made up"
[device.CPU]
flops = { fp32 = "1 TFLOP/s" }
greatest_efficiency = 0.8
half_work = "1 MFLOP"
memory = "64 GB"
memory_bandwidth = "80 GB/s"
launch = "2 us"
source = "made up"
[[node]]
devices = [{ device = "GPU", count = 2 }, { device = "CPU" }]
link = { bandwidth = "10 GB/s", latency = "10 us", shared = true }
instance = "with-gpus"
[[node]]
device = "CPU"
instance = "with-cpus"
[network]
bandwidth = "1 Gbit/s"
latency = "50 us"
[price]
table = "prices.toml"
)";

constexpr const char* kPrices = R"(currency = "EUR"
date = "2024-05"
[[instance]]
name = "with-gpus"
per_hour = 2.5
source = "list A"
[[instance]]
name = "with-cpus"
per_hour = 0.5
date = "2023-01-31"
source = "list B"
)";

class ClusterFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    write("prices.toml", kPrices);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  Cluster read(const std::string& text) const { return read_cluster(write("a.cluster.toml", text)); }

  /// Returns `base` with `from` replaced by `to`; fails the test if `from` is not in it.
  static std::string changed(std::string base, const std::string& from, const std::string& to) {
    const size_t at = base.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return base.replace(at, from.size(), to);
  }
  void expect_refused(const char* base, const std::string& from, const std::string& to,
                      const std::vector<std::string>& parts) const {
    SCOPED_TRACE(from + " -> " + to);
    const std::string text = changed(base, from, to);
    expect_error(Blame::user, parts, [&] { read(text); });
  }

  std::filesystem::path folder_;
};

TEST_F(ClusterFile, ReadsEqualNodes) {
  const Cluster cluster = read(kTwoNodes);
  EXPECT_EQ(cluster.name, "two nodes");
  EXPECT_EQ(cluster.description, "for the test");
  ASSERT_EQ(cluster.size(), 16);
  EXPECT_EQ(cluster.devices[7].node, 0);
  EXPECT_EQ(cluster.devices[8].node, 1);
  EXPECT_EQ(cluster.devices[8].kind, 0);
  EXPECT_EQ(cluster.devices[8].memory, int64_t{16} << 30);
  EXPECT_DOUBLE_EQ(cluster.devices[8].speed, 1);
  ASSERT_EQ(cluster.kinds.size(), 1u);
  const DeviceKind& kind = cluster.kinds[0];
  EXPECT_EQ(kind.name, "V100");
  ASSERT_EQ(kind.speeds.size(), 2u);
  EXPECT_DOUBLE_EQ(kind.speeds.at("fp32").peak_flops, 15.7e12);
  EXPECT_DOUBLE_EQ(kind.speeds.at("bf16").greatest_efficiency, 0.6);
  EXPECT_DOUBLE_EQ(kind.speeds.at("bf16").half_work, 2e9);
  EXPECT_DOUBLE_EQ(kind.memory_bandwidth, 900e9);
  EXPECT_DOUBLE_EQ(kind.launch, 8e-6);
  EXPECT_EQ(kind.source, "datasheet");
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_DOUBLE_EQ(cluster.nodes[1].link.bandwidth, 150e9);
  EXPECT_DOUBLE_EQ(cluster.nodes[1].link.latency, 5e-6);
  EXPECT_FALSE(cluster.nodes[1].link.shared);
  EXPECT_DOUBLE_EQ(cluster.nodes[1].price_per_hour, 24.48);
  EXPECT_DOUBLE_EQ(cluster.network.bandwidth, 25e9 / 8);
  EXPECT_DOUBLE_EQ(cluster.network.latency, 30e-6);
  EXPECT_EQ(cluster.overlap, Overlap::all);
  EXPECT_DOUBLE_EQ(cluster.compute_slowdown, 1.1);
  EXPECT_DOUBLE_EQ(cluster.transfer_slowdown, 1.2);
  EXPECT_EQ(cluster.price.currency, "USD");
  EXPECT_EQ(cluster.price.date, "2023-06");
  EXPECT_EQ(cluster.price.source, "a list");
}

TEST_F(ClusterFile, ReadsHowTheNetworkIsBuilt) {
  const Cluster usual = read(kTwoNodes);
  EXPECT_EQ(usual.fabric.rails, 1);
  EXPECT_EQ(usual.fabric.nodes_per_switch, 0);
  EXPECT_EQ(usual.fabric.oversubscription, 1);
  const std::string network = "[network]\n";
  const Cluster cluster =
      read(changed(kTwoNodes, network, network + "rails = 8\nnodes_per_switch = 2\noversubscription = 2.5\n"));
  EXPECT_EQ(cluster.fabric.rails, 8);
  EXPECT_EQ(cluster.fabric.nodes_per_switch, 2);
  EXPECT_EQ(cluster.fabric.oversubscription, 2.5);
  expect_refused(kTwoNodes, network, network + "rails = 0\n", {"network.rails", "1"});
  expect_refused(kTwoNodes, network, network + "rails = 9\n", {"network.rails", "8 devices", "at most 8"});
  expect_refused(kTwoNodes, network, network + "rails = 8000000000\n", {"network.rails", "8 devices", "at most 8"});
  expect_refused(kTwoNodes, network, network + "oversubscription = 0.5\n", {"network.oversubscription", "1"});
  expect_refused(kTwoNodes, network, network + "oversubscription = 2\n", {"oversubscription", "add nodes_per_switch"});
}

TEST_F(ClusterFile, ReadsWhatDescribesADeviceMoreClosely) {
  const Cluster usual = read(kTwoNodes);
  EXPECT_FALSE(usual.kinds[0].start);
  EXPECT_EQ(usual.kinds[0].memory_efficiency, 1);
  EXPECT_EQ(usual.kinds[0].fused_attention, 0);
  EXPECT_EQ(usual.collectives, Collectives::mpi);
  std::string text = changed(kTwoNodes, "launch = \"8 us\"",
                             "launch = \"8 us\"\nstart = \"2 us\"\nmemory_efficiency = 0.85\nfused_attention = 0.5");
  const Cluster cluster = read(changed(text, "description", "nccl_collectives = true\ndescription"));
  EXPECT_EQ(cluster.kinds[0].start, 2e-6);
  EXPECT_EQ(cluster.kinds[0].memory_efficiency, 0.85);
  EXPECT_EQ(cluster.kinds[0].fused_attention, 0.5);
  EXPECT_EQ(cluster.collectives, Collectives::nccl);
  expect_refused(kTwoNodes, "launch = \"8 us\"", "launch = \"8 us\"\nmemory_efficiency = 1.5",
                 {"device.V100.memory_efficiency", "share"});
  expect_refused(kTwoNodes, "launch = \"8 us\"", "launch = \"8 us\"\nfused_attention = 0",
                 {"device.V100.fused_attention", "share"});
  expect_refused(kTwoNodes, "description", "nccl_collectives = 1\ndescription", {"nccl_collectives"});
}

/// Tensors, a fifth of those that come and go for their allocator, and 2 GiB for the driver fill the 16 GiB.
TEST_F(ClusterFile, MemoryForTensors) {
  const Cluster usual = read(kTwoNodes);
  EXPECT_EQ(usual.kinds[0].taken_by(1000, 400), 1000);
  const Cluster cluster = read(
      changed(kTwoNodes, "memory = \"16 GiB\"", "memory = \"16 GiB\"\nreserved = \"2 GiB\"\nallocator_overhead = 0.2"));
  const int64_t gibi = int64_t{1} << 30, tensors = cluster.devices[0].memory;
  EXPECT_EQ(tensors, 14 * gibi);
  EXPECT_EQ(cluster.kinds[0].taken_by(12 * gibi, 10 * gibi), tensors);
  EXPECT_EQ(cluster.kinds[0].taken_by(12 * gibi, 10 * gibi, 0), 12 * gibi);
  EXPECT_EQ(cluster.kinds[0].taken_by(12 * gibi, 10 * gibi, 2), 16 * gibi);
  expect_refused(kTwoNodes, "memory = \"16 GiB\"", "memory = \"16 GiB\"\nreserved = \"16 GiB\"",
                 {"device.V100.reserved", "nothing", "16.0 GiB"});
  expect_refused(kTwoNodes, "memory = \"16 GiB\"", "memory = \"16 GiB\"\nallocator_overhead = 5",
                 {"device.V100.allocator_overhead", "from 0 to 1"});
}

TEST_F(ClusterFile, ReadsMixedNodesAndPricesFromATable) {
  const Cluster cluster = read(kMixed);
  ASSERT_EQ(cluster.size(), 4);
  ASSERT_EQ(cluster.kinds.size(), 2u);
  auto name_of_device = [&](int i) { return cluster.kinds[size_t(cluster.devices[size_t(i)].kind)].name; };
  EXPECT_EQ(name_of_device(0), "GPU");
  EXPECT_EQ(name_of_device(1), "GPU");
  EXPECT_EQ(name_of_device(2), "CPU");
  EXPECT_EQ(name_of_device(3), "CPU");
  EXPECT_EQ(cluster.devices[2].node, 0);
  EXPECT_EQ(cluster.devices[3].node, 1);
  EXPECT_DOUBLE_EQ(cluster.devices[0].speed / cluster.devices[3].speed, 10);
  EXPECT_TRUE(cluster.nodes[0].link.shared);
  EXPECT_DOUBLE_EQ(cluster.nodes[0].price_per_hour, 2.5);
  EXPECT_DOUBLE_EQ(cluster.nodes[1].price_per_hour, 0.5);
  EXPECT_EQ(cluster.nodes[1].instance, "with-cpus");
  EXPECT_EQ(cluster.price.currency, "EUR");
  EXPECT_EQ(cluster.price.date, "2023-01-31") << "the older one";
  EXPECT_EQ(cluster.price.source, "list A; list B");
  EXPECT_EQ(cluster.overlap, Overlap::nothing);
  EXPECT_DOUBLE_EQ(cluster.compute_slowdown, 1);
}

TEST_F(ClusterFile, FirstDevicesKeepTheirNodes) {
  const Cluster cluster = read(kTwoNodes);
  EXPECT_EQ(first_devices(cluster, 8).nodes.size(), 1u);
  EXPECT_EQ(first_devices(cluster, 9).nodes.size(), 2u);
  EXPECT_EQ(first_devices(cluster, 9).size(), 9);
  expect_error(Blame::user, {"two nodes", "17 devices", "it has 16"}, [&] { first_devices(cluster, 17); });
  expect_error(Blame::user, {"0 devices"}, [&] { first_devices(cluster, 0); });
}

TEST_F(ClusterFile, ChosenDevicesKeepTheirNodes) {
  Cluster cluster = read(kMixed);
  cluster.nodes[1].price_per_hour = 7;
  ASSERT_EQ(cluster.devices[3].node, 1);
  const Cluster part = chosen_devices(cluster, {3, 1, 0});
  ASSERT_EQ(part.size(), 3);
  EXPECT_EQ(part.nodes.size(), 2u);
  EXPECT_EQ(part.devices[0].kind, cluster.devices[3].kind);
  EXPECT_EQ(part.devices[0].node, 0);
  EXPECT_EQ(part.devices[1].node, 1);
  EXPECT_EQ(part.devices[2].node, 1);
  EXPECT_EQ(part.nodes[0].price_per_hour, 7);
  EXPECT_EQ(chosen_devices(cluster, {1, 0}).nodes.size(), 1u);
  expect_error(Blame::user, {"mixed", "device 99"}, [&] { chosen_devices(cluster, {0, 99}); });
}

TEST_F(ClusterFile, RefusesWhatIsWrongInDevices) {
  expect_refused(kTwoNodes, "name = \"two nodes\"", "", {"a.cluster.toml", "\"name\" is missing"});
  expect_refused(kTwoNodes, "15.7 TFLOP/s", "15.7 TFLOP",
                 {"a.cluster.toml:5: device.V100.flops.fp32", "\"15.7 TFLOP\"", "TFLOP/s"});
  expect_refused(kTwoNodes, "15.7 TFLOP/s", "0 TFLOP/s", {":5: device.V100.flops.fp32", "more than zero"});
  expect_refused(kTwoNodes, "15.7 TFLOP/s", "1e-300 FLOP/s", {":5: device.V100.flops.fp32", "too small", "TFLOP/s"});
  expect_refused(kTwoNodes, "launch = \"8 us\"", "launch = \"8000 s\"", {"device.V100.launch", "an hour"});
  expect_refused(kTwoNodes, "fp32 = \"15.7", "fp23 = \"15.7", {":5: device.V100.flops.fp23", "unknown key", "fp32"});
  expect_refused(kTwoNodes, "flops = { fp32 = \"15.7 TFLOP/s\", bf16 = \"125 TFLOP/s\" }", "flops = {}",
                 {":5", "at least one precision"});
  expect_refused(kTwoNodes, "flops = { fp32 = \"15.7 TFLOP/s\", bf16 = \"125 TFLOP/s\" }", "",
                 {"device.V100.flops", "missing"});
  expect_refused(kTwoNodes, "fp32 = 0.9", "fp32 = 1.5",
                 {":6: device.V100.greatest_efficiency.fp32", "1.5", "share of the peak"});
  expect_refused(kTwoNodes, "fp32 = 0.9", "fp32 = 0", {"greatest_efficiency.fp32", "share of the peak"});
  expect_refused(kTwoNodes, "fp32 = 0.9, ", "", {"device.V100.greatest_efficiency.fp32", "missing"});
  expect_refused(kTwoNodes, "bf16 = \"2 GFLOP\"", "bf16 = 2", {":7: device.V100.half_work.bf16", "2 GFLOP"});
  expect_refused(kTwoNodes, "bf16 = \"2 GFLOP\"", "bf16 = \"1e300 PFLOP\"",
                 {":7: device.V100.half_work.bf16", "too large"});
  expect_refused(kTwoNodes, "half_work = {", "halfwork = {", {"half_work", "missing"});
  expect_refused(kTwoNodes, "memory = \"16 GiB\"", "memory = \"16 GHz\"", {":8: device.V100.memory", "GiB"});
  expect_refused(kTwoNodes, "memory = \"16 GiB\"", "", {"device.V100.memory", "missing"});
  expect_refused(kTwoNodes, "launch = \"8 us\"", "", {"device.V100.launch", "missing"});
  expect_refused(kTwoNodes, "source = \"datasheet\"", "", {"device.V100.source", "missing"});
  expect_refused(kTwoNodes, "source = \"datasheet\"", "source = \"datasheet\"\nspeed = 3",
                 {"device.V100.speed", "unknown key"});
  expect_error(Blame::user, {"device", "there is no device", "[device.NAME]"},
               [&] { read("name = \"x\"\n[[node]]\ndevice = \"V100\"\n"); });
  expect_refused(kMixed, "flops = { fp32 = \"1 TFLOP/s\" }", "flops = { fp64 = \"1 TFLOP/s\" }",
                 {"no precision in common"});
}

TEST_F(ClusterFile, RefusesWhatIsWrongInNodesAndLinks) {
  expect_refused(kTwoNodes, "device = \"V100\"", "device = \"V10\"",
                 {":15: node[0].device", "no such device", "did you mean \"V100\"?"});
  expect_refused(kTwoNodes, "device = \"V100\"\n", "", {"node[0]"});
  expect_refused(kTwoNodes, "devices = 8", "devices = 0", {":16: node[0].devices", "at least 1"});
  expect_refused(kTwoNodes, "devices = 8", "devices = 4000000000", {":16: node[0].devices", "at most"});
  expect_refused(kTwoNodes, "count = 2", "count = 1000000", {":14: node[0].count", "at most"});
  expect_refused(kTwoNodes, "count = 2", "count = -1", {":14: node[0].count", "at least 1"});
  expect_refused(kTwoNodes, "link = { bandwidth = \"150 GB/s\", latency = \"5 us\" }", "",
                 {"node[0].link", "missing", "add it to the file"});
  expect_refused(kTwoNodes, "bandwidth = \"150 GB/s\"", "bandwidth = \"0 GB/s\"",
                 {":17: node[0].link.bandwidth", "more than zero"});
  expect_refused(kTwoNodes, ", latency = \"5 us\"", "", {"node[0].link.latency", "missing"});
  expect_refused(kTwoNodes, "[network]\nbandwidth = \"25 Gbit/s\"\nlatency = \"30 us\"", "",
                 {"\"network\" is missing"});
  expect_refused(kTwoNodes, "compute_slowdown = 1.1", "compute_slowdown = 0.9",
                 {"overlap.compute_slowdown", "at least 1"});
  expect_refused(kTwoNodes, "compute_slowdown = 1.1", "compute_slowdown = inf", {"overlap.compute_slowdown", "finite"});
  expect_refused(kTwoNodes, "description", "overlaps = false\ndescription", {"overlap", "remove one of the two"});
  expect_refused(kMixed, "{ device = \"CPU\" }", "{ device = \"CPUs\" }",
                 {"node[0].devices[1].device", "did you mean \"CPU\"?"});
  expect_refused(kMixed, "devices = [{ device = \"GPU\", count = 2 }, { device = \"CPU\" }]", "devices = []",
                 {"node[0].device"});
  expect_error(Blame::user, {"not valid TOML"}, [&] { read("name = \n"); });
  expect_error(Blame::user, {"nowhere.cluster.toml"}, [&] { read_cluster(folder_ / "nowhere.cluster.toml"); });
}

TEST_F(ClusterFile, RefusesWhatIsWrongInPrices) {
  expect_refused(kTwoNodes, "date = \"2023-06\"", "", {":18: node[0].price_per_hour", "24.48", "add price.date"});
  expect_refused(kTwoNodes, "source = \"a list\"", "", {"price_per_hour", "add price.source"});
  expect_refused(kTwoNodes, "date = \"2023-06\"", "date = \"June\"", {"price.date", "June", "2023-06-30"});
  expect_refused(kTwoNodes, "date = \"2023-06\"", "date = \"2026-02-31\"", {"price.date", "2026-02-31"});
  expect_refused(kTwoNodes, "source = \"a list\"", "source = \"\"", {"price.source", "needs a source"});
  expect_refused(kTwoNodes, "price_per_hour = 24.48", "price_per_hour = 0", {"price_per_hour", "more than zero"});
  expect_refused(kTwoNodes, "price_per_hour = 24.48", "price_per_hour = inf", {"price_per_hour", "finite"});
  expect_refused(kMixed, "\"with-cpus\"", "\"with-cpu\"",
                 {"node[1].instance", "no such instance", "did you mean \"with-cpus\"?"});
  expect_refused(kMixed, "[price]", "[price]\ncurrency = \"USD\"", {"price.currency", "EUR"});
  expect_refused(kMixed, "table = \"prices.toml\"", "table = \"price.toml\"", {"price.toml"});
}

TEST_F(ClusterFile, ReadsPrices) {
  const std::vector<InstancePrice> prices = read_prices(folder_ / "prices.toml");
  ASSERT_EQ(prices.size(), 2u);
  EXPECT_EQ(prices[0].date, "2024-05");
  EXPECT_EQ(prices[1].date, "2023-01-31");
  EXPECT_EQ(prices[1].currency, "EUR");
  auto refused = [&](const std::string& from, const std::string& to, const std::vector<std::string>& parts) {
    const std::filesystem::path path = write("p.toml", changed(kPrices, from, to));
    expect_error(Blame::user, parts, [&] { read_prices(path); });
  };
  refused("with-cpus", "with-gpus", {"p.toml:8: instance[1].name", "already"});
  refused("per_hour = 2.5", "per_hour = -2.5", {"instance[0].per_hour", "at least 0"});
  refused("per_hour = 2.5", "per_hour = 0", {"instance[0].per_hour", "more than zero"});
  refused("date = \"2024-05\"", "", {"\"date\" is missing"});
  refused("2024-05", "05-2024", {"p.toml:2: date"});
  refused("source = \"list A\"", "", {"instance[0].source", "missing"});
  refused("currency", "curency", {"currency"});
}

TEST(ClusterExamples, AllRead) {
  const std::vector<std::pair<std::string, int>> sizes{
      {"dgx1-v100", 8},      {"8xa100", 8},      {"2xrtx3070", 2},      {"azure-4x4-v100", 16}, {"aws-2x8-v100", 16},
      {"8xp40", 8},          {"8xp100-pcie", 8}, {"16x4-v100-10g", 64}, {"16x4-v100-25g", 64},  {"64xcpu-1g", 64},
      {"mixed-gpu-cpu", 14}, {"selene", 3072},   {"32xdgx1-v100", 256}, {"tpu-v3-8", 8},        {"a100-800g", 512},
      {"4x8-v100-100g", 32}, {"h100-400g", 512}};
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_CLUSTERS))
    files += entry.path().string().ends_with(".cluster.toml");
  EXPECT_EQ(files, sizes.size());
  for (const auto& [name, size] : sizes) {
    const Cluster cluster = read_cluster(std::filesystem::path(TRIREME_CLUSTERS) / (name + ".cluster.toml"));
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(cluster.size(), size) << name;
    for (const DeviceKind& kind : cluster.kinds) EXPECT_TRUE(kind.speeds.contains("fp32")) << name;
  }
  EXPECT_DOUBLE_EQ(read_cluster(TRIREME_CLUSTERS "/aws-2x8-v100.cluster.toml").nodes[1].price_per_hour, 24.48);
}

TEST(ClusterDates, AreIso) {
  for (const char* good : {"2023-06", "2023-06-30", "1999-12-01", "2024-02-29"}) EXPECT_TRUE(is_iso_date(good)) << good;
  for (const char* bad : {"", "2023", "2023-13", "2023-00", "2023-06-32", "2026-02-31", "2023-02-29", "2023-06-31",
                          "2023/06", "23-06-01", "2023-06-3", "2023-6-30", "june"})
    EXPECT_FALSE(is_iso_date(bad)) << bad;
}

TEST_F(ClusterFile, SpeedsAreThoseOfThePrecision) {
  Cluster cluster = Cluster::uniform(2);
  cluster.kinds.resize(2);
  cluster.kinds[0].speeds = {{"fp32", {.peak_flops = 20e12, .greatest_efficiency = 0.5}},
                             {"bf16", {.peak_flops = 300e12, .greatest_efficiency = 0.6}}};
  cluster.kinds[1].speeds = {{"fp32", {.peak_flops = 16e12, .greatest_efficiency = 0.5}},
                             {"bf16", {.peak_flops = 120e12, .greatest_efficiency = 0.5}}};
  cluster.devices[0].kind = 0;
  cluster.devices[1].kind = 1;
  EXPECT_DOUBLE_EQ(at_precision(cluster, "fp32").devices[1].speed, 0.8);
  EXPECT_DOUBLE_EQ(at_precision(cluster, "bf16").devices[1].speed, 60.0 / 180);
  EXPECT_DOUBLE_EQ(at_precision(cluster, "bf16").devices[0].speed, 1);
  EXPECT_DOUBLE_EQ(at_precision(cluster, "fp64").devices[1].speed, 1) << "no kind has it: as before";
}

}  // namespace
}  // namespace trireme
