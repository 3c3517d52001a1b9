#include "comm/rendezvous/process_place.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>

#include "base/memory.h"
#include "base/text_parts.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kLoopbackAddress = "127.0.0.1";
constexpr int kGreatestPort = 65535;
// for jobs whose launcher gives no port: below the ports that the system lends to clients (from 32768)
constexpr int kFirstPort = 20000, kPorts = 12000;

/// The variables of one kind of launcher.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  ///< null: the launcher does not set it
  const char* job;         ///< equal in all processes of a job, and differs between jobs; null: none is known
};

constexpr Launcher kLaunchers[] = {
    {"torchrun's variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"Open MPI's variables", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI's variables", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr},
    // SLURM_STEP_NUM_TASKS exists only in a step of srun, not in a batch script
    {"Slurm's variables", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_JOB_ID"},
};

int number_of(const Variables& variables, const char* name, int least, int most) {
  const std::string text = variables(name).value_or("");
  const std::optional<int> value = number_in<int>(text);
  if (value && *value >= least && *value <= most) return *value;
  fail_user({fmt::format("environment variable {}", name), fmt::format("\"{}\"", text),
             fmt::format("must be a whole number from {} to {}", least, most),
             "start the processes with trireme launch, torchrun, mpirun or srun, or unset it"});
}

/// FNV-1a: the same value in every process.
uint32_t hash_of(const std::string& text) {
  uint32_t hash = 0x811c9dc5u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x01000193u;
  return hash;
}

bool is_slurm(const Launcher& launcher) { return launcher.local_size == nullptr; }

bool on_one_machine(const Launcher& launcher, const Variables& variables, int size) {
  if (is_slurm(launcher)) return variables("SLURM_STEP_NUM_NODES") == "1";
  return variables(launcher.local_size) && number_of(variables, launcher.local_size, 1, kMaxDevices) == size;
}

std::string address_of(const Launcher& launcher, const Variables& variables, int size, bool store_is_kept) {
  const auto address = variables("MASTER_ADDR");
  const bool is_named = address && !address->empty();
  // torchrun's MASTER_ADDR is the machine's name, which foreign processes may reach. Only a store that torchrun hosts
  // must be reached there.
  if (on_one_machine(launcher, variables, size) && !(store_is_kept && is_named)) return kLoopbackAddress;
  if (is_named) return *address;
  if (is_slurm(launcher)) {
    for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
      if (const auto nodes = variables(list); nodes && !nodes->empty()) return first_host(*nodes);
    if (const auto address = variables("SLURM_LAUNCH_NODE_IPADDR"); address && !address->empty()) return *address;
  }
  fail_user({"environment variable MASTER_ADDR", "is not set",
             fmt::format("according to {} there are processes on several machines", launcher.name),
             "set it to the host of rank 0, as the other ranks reach it; with Open MPI: mpirun -x MASTER_ADDR=HOST"});
}

int port_of(const Launcher& launcher, const Variables& variables) {
  if (variables("MASTER_PORT")) return number_of(variables, "MASTER_PORT", 1, kGreatestPort);
  std::string job = launcher.job ? variables(launcher.job).value_or("") : "";
  if (is_slurm(launcher)) job.append(".").append(variables("SLURM_STEP_ID").value_or(""));
  return kFirstPort + int(hash_of(job) % kPorts);
}

}  // namespace

Variables environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::optional<ProcessPlace> process_place(const Variables& variables, const PlaceOptions& options) {
  if (variables("RANK") && variables("MASTER_ADDR") && !variables("WORLD_SIZE"))
    fail_user({"environment variable WORLD_SIZE", "is not set",
               "RANK and MASTER_ADDR are, as if there were several processes",
               "set it to their number, or unset those"});
  for (const Launcher& launcher : kLaunchers) {
    if (!variables(launcher.rank) || !variables(launcher.size)) continue;
    ProcessPlace place;
    place.size = number_of(variables, launcher.size, 1, kMaxDevices);
    place.rank = number_of(variables, launcher.rank, 0, place.size - 1);
    if (place.size == 1 && !options.even_alone) return std::nullopt;
    if (variables(launcher.local_rank)) place.local_rank = number_of(variables, launcher.local_rank, 0, place.size - 1);
    place.launcher = launcher.name;
    if (!options.needs_address) return place;
    place.store_is_kept = variables("TORCHELASTIC_USE_AGENT_STORE") == "True";
    place.address = address_of(launcher, variables, place.size, place.store_is_kept);
    place.port = port_of(launcher, variables);
    if (place.store_is_kept)
      place.store_prefix = fmt::format("trireme/{}", variables("TORCHELASTIC_RESTART_COUNT").value_or("0"));
    return place;
  }
  return std::nullopt;
}

bool reports_for_command(const Variables& variables) {
  for (const Launcher& launcher : kLaunchers) {
    if (!variables(launcher.rank) || !variables(launcher.size)) continue;
    const bool by_machine = &launcher == &kLaunchers[0] && variables(launcher.local_rank);
    const std::string number = *variables(by_machine ? launcher.local_rank : launcher.rank);
    return number == "0" || number.empty() ||
           number.find_first_not_of("0123456789") != number.npos;  // a process with an invalid number reports
  }
  return true;
}

std::string first_host(const std::string& node_list) {
  const size_t bracket = node_list.find('['), comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const size_t number_end = node_list.find_first_of("-,]", bracket);
  if (number_end == std::string::npos) return node_list.substr(0, bracket);
  const size_t close = node_list.find(']', bracket), end = node_list.find(',', close);
  std::string rest =
      close == std::string::npos ? "" : node_list.substr(close + 1, end == std::string::npos ? end : end - close - 1);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, number_end - bracket - 1) + rest;
}

}  // namespace trireme
