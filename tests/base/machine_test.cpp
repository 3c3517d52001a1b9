#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/cgroup.h"
#include "base/cores.h"
#include "expect_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Machine, DescribesThisOne) {
  const Machine m = inspect_machine();
  EXPECT_GE(m.cores, 1);
  EXPECT_LE(m.cores, m.cores_online);
  EXPECT_GT(m.memory_bytes, 64 << 20);
  EXPECT_LE(m.memory_bytes, m.memory_total_bytes);
  EXPECT_GT(m.blas.gflops, 0.1);
  EXPECT_FALSE(m.libtorch.empty());
  EXPECT_FALSE(m.blas.name.empty());
  EXPECT_THAT(summary(m), HasSubstr("libtorch " + m.libtorch));
}

/// Compares with the flags that the kernel lists.
TEST(Machine, InstructionSetsAgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags")) flags = line + " ";
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags on this processor";
  auto kernel_has = [&](const std::string& flag) { return flags.find(" " + flag + " ") != std::string::npos; };
  const CpuFeatures cpu = cpu_features();
  EXPECT_EQ(cpu.avx2.usable, kernel_has("avx2") && kernel_has("fma"));
  EXPECT_EQ(cpu.avx512.usable,
            kernel_has("avx512f") && kernel_has("avx512bw") && kernel_has("avx512vl") && kernel_has("avx512dq"));
  EXPECT_EQ(cpu.avx512_bf16.usable, kernel_has("avx512_bf16"));
  EXPECT_EQ(cpu.amx_bf16.usable, kernel_has("amx_tile") && kernel_has("amx_bf16"));
  EXPECT_TRUE(cpu.avx2.reported || !cpu.avx2.usable);
}

TEST(Machine, CountsOnlyCoresItMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &before)) {
      CPU_SET(i, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Machine m = inspect_machine(false);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(m.cores, 1);
  EXPECT_EQ(m.blas.gflops, 0);
}

Machine well_set_up() {
  Machine m;
  m.cores = m.cores_online = 8;
  m.operation_threads = 8;
  m.cpu.avx2 = m.cpu.avx512 = m.cpu.amx_bf16 = {true, true};
  m.blas = {Blas::Kind::openblas, "OpenBLAS", "/lib/libopenblas.so", "SkylakeX", 150};
  m.malloc = {false, "tcmalloc"};
  m.onednn = "2.7.2";
  m.libtorch = "1.13.1";
  m.memory_bytes = int64_t{16} << 30;
  return m;
}

TEST(Machine, SummaryIsOneLine) {
  EXPECT_EQ(summary(well_set_up()), "8 cores, AVX-512, AMX, 16.0 GiB; libtorch 1.13.1");
}

TEST(Machine, WarnsOfEachThingThatIsSlowAndOfNothingElse) {
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_THAT(slow_warnings(well_set_up()), IsEmpty());
  auto only_warning = [](auto change) {
    Machine m = well_set_up();
    change(m);
    const auto warnings = slow_warnings(m);
    return warnings.size() == 1 ? warnings[0] : "not one warning but " + std::to_string(warnings.size());
  };
  EXPECT_THAT(only_warning([](Machine& m) { m.blas.kind = Blas::Kind::reference; }), HasSubstr("libopenblas0-openmp"));
  EXPECT_THAT(only_warning([](Machine& m) { m.blas.gflops = 5; }), HasSubstr("5.0 GFLOP/s"));
  EXPECT_THAT(only_warning([](Machine& m) { m.blas.made_for = "Nehalem"; }), HasSubstr("OPENBLAS_CORETYPE=SkylakeX"));
  EXPECT_THAT(only_warning([](Machine& m) {
                m.blas.made_for = "Prescott";
                m.cpu.avx512.usable = false;
              }),
              HasSubstr("code for Prescott, without AVX2"));
  EXPECT_THAT(only_warning([](Machine& m) { m.cores_online = 16; }), HasSubstr("8 of the machine's 16 cores"));
  EXPECT_THAT(only_warning([](Machine& m) { m.operation_threads = 1; }), HasSubstr("1 of 8 cores"));
  EXPECT_THAT(only_warning([](Machine& m) { m.cpu.amx_bf16.usable = false; }), HasSubstr("does not grant"));
  EXPECT_THAT(only_warning([](Machine& m) { m.malloc = {true, "glibc"}; }), HasSubstr("tcmalloc"));
  EXPECT_THAT(only_warning([](Machine& m) { m.onednn.clear(); }), HasSubstr("oneDNN"));
}

/// A folder in place of /sys/fs/cgroup.
class Cgroup : public ::testing::Test {
 protected:
  Cgroup() : root_(fs::path(::testing::TempDir()) / ("cgroup_test." + std::to_string(::getpid()))) {}
  ~Cgroup() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  CgroupLimits limits() const { return cgroup_limits(root_ / "membership", root_); }

  fs::path root_;
};

TEST_F(Cgroup, Version2TakesTheTightestOfTheGroupAndItsParents) {
  put("membership", "0::/job/step");
  put("job/step/cpu.max", "max 100000");
  put("job/step/memory.max", "4000000000");
  put("job/cpu.max", "150000 100000");
  put("job/memory.max", "3000000000");
  EXPECT_EQ(limits().cores, 1.5);
  EXPECT_EQ(limits().memory_bytes, 3'000'000'000);
}

TEST_F(Cgroup, Version2InAContainerSeesItsOwnRoot) {
  put("membership", "0::/docker/0123");
  put("cpu.max", "200000 100000");
  put("memory.max", "max");
  EXPECT_EQ(limits().cores, 2.0);
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
}

TEST_F(Cgroup, Version1) {
  put("membership", "4:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/");
  put("cpu,cpuacct/job/cpu.cfs_quota_us", "300000");
  put("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  put("memory/job/memory.limit_in_bytes", "2000000000");
  put("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(limits().cores, 3.0);
  EXPECT_EQ(limits().memory_bytes, 2'000'000'000);
}

TEST_F(Cgroup, NothingToReadMeansNoLimit) {
  EXPECT_EQ(limits().cores, std::nullopt);
  put("membership", "0::/");
  put("cpu.cfs_quota_us", "-1");
  EXPECT_EQ(limits().cores, std::nullopt);
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
}

TEST(Cores, AreDividedWithoutLeavingAnyOut) {
  const std::vector<int> usable = usable_cores();
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(core_shares(1), std::vector<std::vector<int>>{usable});
  for (const int parts : {2, 3, int(usable.size()), 2 * int(usable.size()) + 1}) {
    const auto shares = core_shares(parts);
    ASSERT_EQ(int(shares.size()), parts);
    std::set<int> all;
    size_t sum = 0;
    for (const std::vector<int>& share : shares) {
      EXPECT_FALSE(share.empty()) << parts;
      all.insert(share.begin(), share.end());
      sum += share.size();
    }
    EXPECT_EQ(std::vector<int>(all.begin(), all.end()), usable) << parts;
    if (parts <= int(usable.size())) {
      EXPECT_EQ(sum, usable.size()) << "no core is in two shares of " << parts;
    }
  }
}

TEST(Cores, InWords) {
  EXPECT_EQ(describe_cores({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(describe_cores({5}), "5");
  EXPECT_EQ(describe_cores({1, 3, 4}), "1,3-4");
}

}  // namespace
}  // namespace trireme
