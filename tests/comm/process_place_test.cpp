// Rank and number of processes from the environment of each launcher; network interfaces of this machine.
#include "comm/rendezvous/process_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "../base/expect_error.h"
#include "comm/rendezvous/interfaces.h"

namespace trireme {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<ProcessPlace> place_in(const Environment& environment) {
  return process_place([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(ProcessPlace, OneOfAnUnknownNumberIsAnError) {
  expect_error(Blame::user, {"WORLD_SIZE", "is not set"}, [] {
    place_in({{"RANK", "1"}, {"MASTER_ADDR", "127.0.0.1"}});
  });
}

TEST(ProcessPlace, IsNoneWithoutLauncherOrForOneProcess) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(place_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  // Inside a batch script, but not inside a step of srun.
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(ProcessPlace, OfTorchrun) {
  const Environment environment{{"RANK", "5"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "node7"},
                                {"MASTER_PORT", "29511"}};
  const auto place = place_in(environment);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->size, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->address, "node7");
  EXPECT_EQ(place->port, 29511);
  EXPECT_FALSE(place->store_is_kept);
  Environment kept = environment, environment_alone = environment;
  kept.insert({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(place_in(kept)->store_is_kept);
  EXPECT_EQ(place_in(kept)->store_prefix, "trireme/2");
  for (Environment* on : {&environment_alone, &kept}) (*on)["LOCAL_WORLD_SIZE"] = "8";
  EXPECT_EQ(place_in(environment_alone)->address, "127.0.0.1") << "strangers may reach the machine by its name";
  EXPECT_EQ(place_in(kept)->address, "node7") << "where torchrun listens";
}

TEST(ProcessPlace, OfOpenMpi) {
  Environment environment{{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                          {"PMIX_NAMESPACE", "3894214657"}};
  const auto place = place_in(environment);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->address, "127.0.0.1");
  EXPECT_GE(place->port, 20000);
  EXPECT_LT(place->port, 32000);
  environment["PMIX_NAMESPACE"] = "3894214658";
  EXPECT_NE(place_in(environment)->port, place->port) << "two jobs of one machine have different ports";
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  expect_error(Blame::user, {"MASTER_ADDR", "mpirun -x"}, [&] { place_in(environment); });
  environment["MASTER_ADDR"] = "head";
  EXPECT_EQ(place_in(environment)->address, "head");
}

TEST(ProcessPlace, OfMpich) {
  Environment environment{
      {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "6"}};
  const auto place = place_in(environment);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->address, "127.0.0.1");
  environment["PMI_RANK"] = environment["MPI_LOCALRANKID"] = "1";
  environment["PMI_FD"] = "9";  // a file descriptor of this process
  EXPECT_EQ(place_in(environment)->port, place->port);
}

TEST(ProcessPlace, OfASlurmStep) {
  Environment environment{{"SLURM_PROCID", "3"},
                          {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_NUM_NODES", "2"},
                          {"SLURM_JOB_ID", "12"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "gpu[03-04]"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "10.9.8.7"}};
  const auto place = place_in(environment);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->address, "gpu03");
  environment["SLURM_STEP_ID"] = "1";
  EXPECT_NE(place_in(environment)->port, place->port);
  environment["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(place_in(environment)->address, "127.0.0.1");
}

TEST(ProcessPlace, RefusesNumbersThatCannotBe) {
  expect_error(Blame::user, {"RANK", "\"4\"", "from 0 to 3"}, [] { place_in({{"RANK", "4"}, {"WORLD_SIZE", "4"}}); });
  expect_error(Blame::user, {"WORLD_SIZE", "\"four\""}, [] { place_in({{"RANK", "0"}, {"WORLD_SIZE", "four"}}); });
  expect_error(Blame::user, {"MASTER_PORT", "\"0\""}, [] {
    place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}});
  });
}

TEST(ProcessPlace, OneProcessReportsForACommand) {
  const auto reports = [](const Environment& environment) {
    return reports_for_command([&](const std::string& name) -> std::optional<std::string> {
      const auto found = environment.find(name);
      return found == environment.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_TRUE(reports({}));
  EXPECT_TRUE(reports({{"RANK", "3"}})) << "not a launcher's";
  EXPECT_TRUE(reports({{"RANK", "0"}, {"WORLD_SIZE", "4"}}));
  EXPECT_FALSE(reports({{"RANK", "3"}, {"WORLD_SIZE", "4"}}));
  // torchrun is started on each machine, possibly with a different command.
  EXPECT_TRUE(reports({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}));
  EXPECT_FALSE(reports({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}}));
  EXPECT_FALSE(
      reports({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}));
  EXPECT_FALSE(reports({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "0"}}));
  EXPECT_TRUE(reports({{"PMI_RANK", "x"}, {"PMI_SIZE", "4"}})) << "no other process would report that it is no number";
}

TEST(ProcessPlace, FirstHostOfALargeList) {
  for (const auto& [list, first] : std::map<std::string, std::string>{{"n1", "n1"},
                                                                      {"n1,n2", "n1"},
                                                                      {"n[1-3,7],m2", "n1"},
                                                                      {"n[07,9]", "n07"},
                                                                      {"rack[2-3]n5", "rack2n5"},
                                                                      {"a,n[1-2]", "a"},
                                                                      {"n[12]", "n12"}})
    EXPECT_EQ(first_host(list), first) << list;
}

TEST(Interfaces, OfThisMachine) {
  const std::vector<NetworkInterface> all = network_interfaces();
  const auto is_loopback = [](const NetworkInterface& one) { return one.name == "lo" && one.address == "127.0.0.1"; };
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), is_loopback));
  EXPECT_EQ(interface_towards("127.0.0.1"), "lo");
  EXPECT_EQ(interface_towards("localhost"), "lo");
  for (const NetworkInterface& one : all) {
    if (one.name != "lo" && one.address.find(':') == std::string::npos) {
      EXPECT_NE(interface_towards(one.address), "");
    }
  }
  check_interface("lo", "--interface");
  expect_error(Blame::user, {"--interface", "nosuch0", "lo (127.0.0.1"},
               [] { check_interface("nosuch0", "--interface"); });
  expect_error(Blame::user, {"no.such.host.invalid"}, [] { interface_towards("no.such.host.invalid"); });
}

}  // namespace
}  // namespace trireme
