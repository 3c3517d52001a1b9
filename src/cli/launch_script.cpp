#include "cli/launch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/train_process.h"
#include "comm/backend_list.h"
#include "comm/rendezvous/token.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kUsualPort = 29500;

int port_of(const ScriptRequest& request) { return request.port != 0 ? request.port : kUsualPort; }

constexpr const char* kMpiScript = "mpi";  // for mpirun, with any backend

bool is_alone(const ScriptRequest& request) {
  return request.hosts.size() == 1 && is_this_machine(request.hosts.front().name);
}

/// Returns the processes of each host, for launchers that have one number for all hosts.
int processes_per_host(const ScriptRequest& request, const char* launcher) {
  const int first = request.hosts.front().processes;
  const bool same = std::all_of(request.hosts.begin(), request.hosts.end(),
                                [&](const LaunchHost& host) { return host.processes == first; });
  if (same) return first;
  fail_user({"--hosts", "have different numbers of processes",
             fmt::format("{} starts the same number on each host", launcher), "give all hosts the same number"});
}

std::vector<std::string> names_of(const ScriptRequest& request) {
  std::vector<std::string> names;
  for (const LaunchHost& host : request.hosts) names.push_back(host.name);
  return names;
}

/// Returns the hosts as launchers without ssh name them: without the user, each host once.
ScriptRequest with_plain_hosts(ScriptRequest request) {
  std::vector<LaunchHost> plain;
  for (const LaunchHost& host : request.hosts) {
    const std::string name = without_user(host.name);
    const auto same = std::find_if(plain.begin(), plain.end(), [&](const LaunchHost& one) { return one.name == name; });
    if (same == plain.end()) plain.push_back({name, host.processes});
    else same->processes += host.processes;
  }
  request.hosts = std::move(plain);
  return request;
}

std::string program_line(const ScriptRequest& request) {
  std::vector<std::string> words{"trireme"};
  words.insert(words.end(), request.words.begin(), request.words.end());
  return shell_line(words);
}

std::string interface_line(const ScriptRequest& request) {
  return request.interface.empty() ? ""
                                   : fmt::format("export {}={}\n", kInterfaceVariable, shell_quoted(request.interface));
}

/// For launchers that pass their environment on.
std::string port_line(const ScriptRequest& request) {
  return request.port == 0 ? "" : fmt::format("export MASTER_PORT={}\n", request.port);
}

/// A token, which is made when the job begins, protects the rendezvous: from other users of one machine too.
std::string token_lines(const ScriptRequest& request) {
  if (request.backend->finds_ranks) return "";
  return fmt::format("export {0}=${{{0}:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')}}\n", kTokenVariable);
}

/// True if the command asks for GPUs. A file that says device = "cuda" is not read here.
bool asks_for_gpus(const ScriptRequest& request) {
  for (size_t i = 0; i < request.words.size(); ++i) {
    if (request.words[i] == "--device=cuda") return true;
    if (request.words[i] == "--device" && i + 1 < request.words.size() && request.words[i + 1] == "cuda") return true;
  }
  return false;
}

std::string slurm(const ScriptRequest& request) {
  std::string text = "#!/bin/bash\n#SBATCH --job-name=trireme\n";
  text += fmt::format("#SBATCH --ntasks={}\n", processes_of(request.hosts));
  if (!is_alone(request)) {
    text += fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n", request.hosts.size(),
                        processes_per_host(request, "Slurm"));
    text += fmt::format("#SBATCH --nodelist={}\n", join(names_of(request), ","));
  }
  text += "# cores of each process\n#SBATCH --cpus-per-task=1\n";
  if (asks_for_gpus(request)) text += "#SBATCH --gpus-per-task=1\n";
  // Without PMIx each process would believe that it is the only one of its MPI job. A frozen rank ends with the others.
  return text + interface_line(request) + port_line(request) + token_lines(request) + "srun --kill-on-bad-exit=1 " +
         (request.bind ? "" : "--cpu-bind=none ") + (request.backend->finds_ranks ? "--mpi=pmix " : "") +
         program_line(request) + "\n";
}

/// On one machine mpirun's processes have its environment; -x is Open MPI's alone.
std::string mpi(const ScriptRequest& request) {
  std::string line = fmt::format("mpirun -n {}{}", processes_of(request.hosts), request.bind ? "" : " --bind-to none");
  if (!is_alone(request)) {
    std::vector<std::string> hosts;
    for (const LaunchHost& host : request.hosts) hosts.push_back(fmt::format("{}:{}", host.name, host.processes));
    line += fmt::format(" --host {} -x MASTER_ADDR={} -x MASTER_PORT={}", shell_quoted(join(hosts, ",")),
                        shell_quoted(request.hosts.front().name), port_of(request));
    if (!request.backend->finds_ranks) line += fmt::format(" -x {}", kTokenVariable);
  }
  if (!request.interface.empty()) line += fmt::format(" -x {}", kInterfaceVariable);
  return "#!/bin/sh\n" + interface_line(request) + (is_alone(request) ? port_line(request) : "") +
         token_lines(request) + line + " " + program_line(request) + "\n";
}

void refuse_mpi(const ScriptRequest& request, const std::string& kind) {
  if (request.backend->finds_ranks)
    fail_user({"--backend", request.backend->name,
               fmt::format("processes that {} starts do not find each other by MPI", kind),
               fmt::format("print {} or slurm, or use {}", kMpiScript, usual_process_backend().name)});
}

/// Flags have underscores, because every version of torchrun accepts those.
std::string torchrun(const ScriptRequest& request) {
  const int each = processes_per_host(request, "torchrun");
  if (is_alone(request) && request.port != 0)
    fail_user({"--port", std::to_string(request.port), "torchrun --standalone chooses a free port", "leave it out"});
  std::string text = "#!/bin/sh\n", line;
  if (is_alone(request)) {
    line = fmt::format("torchrun --standalone --no_python --nproc_per_node={}", each);
  } else {
    text += fmt::format("# on each of {}, with the same secret: openssl rand -hex 16\n", join(names_of(request)));
    text += fmt::format(": \"${{{0}:?set it to the same secret on all hosts}}\"\nexport {0}\n", kTokenVariable);
    line = fmt::format("torchrun --nnodes={} --rdzv_backend=c10d --rdzv_endpoint={} --no_python --nproc_per_node={}",
                       request.hosts.size(),
                       shell_quoted(fmt::format("{}:{}", request.hosts.front().name, port_of(request))), each);
  }
  return text + interface_line(request) + line + " " + program_line(request) + "\n";
}

std::string kubernetes(const ScriptRequest& request) {
  if (!is_alone(request))
    fail_user({"--hosts", "are chosen by Kubernetes", "each process is a pod", "give their number with -n"});
  std::string arguments;
  for (const std::string& word : request.words)
    arguments += fmt::format("\n            - {}", nlohmann::json(word).dump());
  std::string variables;
  const auto add = [&](const std::string& name, const std::string& value) {
    variables += fmt::format("\n            - name: {}\n              value: {}", name, nlohmann::json(value).dump());
  };
  add("MASTER_ADDR", "trireme-0.trireme");
  add("MASTER_PORT", std::to_string(port_of(request)));
  add("WORLD_SIZE", std::to_string(processes_of(request.hosts)));
  if (!request.interface.empty()) add(kInterfaceVariable, request.interface);
  return fmt::format(
      R"(# Names of the pods for each other.
apiVersion: v1
kind: Service
metadata:
  name: trireme
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: trireme
---
apiVersion: batch/v1
kind: Job
metadata:
  name: trireme
spec:
  completions: {0}
  parallelism: {0}
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      subdomain: trireme
      restartPolicy: Never
      containers:
        - name: trireme
          # an image with trireme, the experiment and its data
          image: trireme:latest
          command: ["trireme"]
          args:{1}
          env:{2}
            # a secret of your cluster: kubectl create secret generic trireme --from-literal=token=$(openssl rand -hex 16)
            - name: {3}
              valueFrom:
                secretKeyRef:
                  name: trireme
                  key: token
            - name: RANK
              valueFrom:
                fieldRef:
                  fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
{4})",
      processes_of(request.hosts), arguments, variables, kTokenVariable,
      asks_for_gpus(request) ? "          resources:\n            limits:\n              nvidia.com/gpu: 1\n" : "");
}

}  // namespace

const std::vector<std::string>& script_kinds() {
  static const std::vector<std::string> kinds = {"slurm", "kubernetes", kMpiScript, "torchrun"};
  return kinds;
}

std::string launch_script(const std::string& kind, const ScriptRequest& wanted) {
  if (wanted.backend->finds_ranks && wanted.port != 0)
    fail_user({"--port", std::to_string(wanted.port),
               fmt::format("backend {} needs no rendezvous: MPI finds the ranks", wanted.backend->name),
               "leave it out"});
  const ScriptRequest request = with_plain_hosts(wanted);
  if (kind == "slurm") return slurm(request);
  if (kind == kMpiScript) return mpi(request);
  refuse_mpi(request, kind);
  if (kind == "kubernetes") return kubernetes(request);
  check_internal(kind == "torchrun", "the command line takes no other kind of script");
  return torchrun(request);
}

}  // namespace trireme
