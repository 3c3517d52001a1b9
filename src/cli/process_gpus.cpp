#include "cli/process_gpus.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "comm/nccl/nccl.h"
#include "comm/rendezvous/process_place.h"
#include "comm/rendezvous/text_messages.h"
#include "experiment/run_device.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// What a rank knows about its own GPU.
struct OwnGpu {
  std::string obstacle;  ///< why this rank cannot send from its GPU; "" if it can
  std::string machine, gpu;
};

std::string text_of_gpu(const OwnGpu& own) { return nlohmann::json{own.obstacle, own.machine, own.gpu}.dump(); }

OwnGpu gpu_from(const std::string& text) {
  const nlohmann::json all = nlohmann::json::parse(text);
  return {all.at(0).get<std::string>(), all.at(1).get<std::string>(), all.at(2).get<std::string>()};
}

/// NCCL refuses ranks that share a GPU, unless its user says that they may, or that each is a machine of its own.
bool may_share() { return environment()("NCCL_HOSTID") || environment()("NCCL_MULTI_RANK_GPU_ENABLE"); }

OwnGpu own_gpu(const RunSpec& experiment, const std::vector<c10::Device>& places) {
  OwnGpu own{.obstacle = nccl_obstacle(), .machine = machine_id(), .gpu = ""};
  if (places.size() > 1) own.obstacle = "a process computes on several GPUs";
  if (own.obstacle.empty() && !may_share()) own.gpu = gpu_ids(experiment).at(size_t(places[0].index()));
  return own;
}

/// Returns why the ranks cannot send from GPU to GPU; "" if they can.
std::string obstacle_of(const std::vector<std::string>& texts) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;  // by machine and GPU
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const OwnGpu own = gpu_from(texts[rank]);
    if (!own.obstacle.empty()) return own.obstacle;
    if (own.gpu.empty()) continue;
    const auto [other, is_new] = ranks.emplace(std::pair(own.machine, own.gpu), rank);
    if (!is_new) return fmt::format("ranks {} and {} compute on one GPU", other->second, rank);
  }
  return "";
}

}  // namespace

std::string connect_gpus(ProcessRank& process, const RunSpec& experiment, const Plan& plan,
                         const BackendKind& backend) {
  const std::vector<c10::Device> places = places_of_process(experiment, plan);
  if (places.empty()) return "";
  if (!backend.between_gpus) return "tensors travel through memory of the host";
  const std::vector<std::string> all = gather_texts(process.world(), text_of_gpu(own_gpu(experiment, places)));
  const std::string obstacle = broadcast_text(process.world(), process.rank() == 0 ? obstacle_of(all) : "");
  if (!obstacle.empty())
    fail_user(
        {fmt::format("--backend {}", backend.name), obstacle, "",
         "start no more processes on a machine than it has GPUs, with an NCCL that loads, or use --backend gloo"});
  process.connect_gpus(backend, places[0]);
  return "tensors travel from GPU to GPU by " + nccl_version();
}

}  // namespace trireme
